//! Judges the channels that a broker has granted, to a command of the contract or to a program that
//! requested one by a name of the contract. The broker keeps their accounts.

use std::collections::BTreeMap;

use punctual_client::Broker;
use punctual_client::grant::GrantId;
use punctual_client::wire::{ChannelStatus, Counts};
use punctual_linux::clock;
use punctual_model::{Contract, Duration, Instant};

use super::programs::Owners;
use super::promises::{Options, Outcome, PromiseVerdict, broken};

/// The interval between requests to the broker.
const EVERY: Duration = Duration::from_millis(500);

/// Causes of losses that are not the sending program's fault.
const OURS: [&str; 2] = ["refused", "unreachable"];

/// The channels of a contract, as reported by a broker.
pub(super) struct Brokered {
    broker: Option<Broker>,
    /// The names of the contract's channels.
    names: Vec<String>,
    /// The channel of each command, by position.
    of_command: Vec<Option<String>>,
    next: Instant,
    seen: BTreeMap<GrantId, Seen>,
}

/// The reports on one grant.
struct Seen {
    name: String,
    /// The counts from before the run.
    before: Counts,
    was_broken: bool,
    last: ChannelStatus,
}

impl Brokered {
    /// Connects to the broker, if one runs. Its counts so far are disregarded.
    pub(super) fn start(options: &Options, contract: &Contract, owners: &Owners) -> Self {
        let sending = contract.channels.iter().map(|one| one.name().to_owned());
        let receiving = contract.receiving.iter().map(|one| one.name.clone());
        let channel = |at: usize| contract.channels.get(at).map(|one| one.name().to_owned());
        let commands = if options.run_by.is_some() { &contract.commands[..] } else { &[] };
        let of_command = commands.iter().map(|one| one.channel().and_then(channel));
        let names: Vec<String> = sending.chain(receiving).collect();
        let broker = if names.is_empty() { None } else { Broker::connect_to(&options.broker).ok() };
        let (of_command, seen) = (of_command.collect(), BTreeMap::new());
        let mut brokered = Self { broker, names, of_command, next: Instant::ZERO, seen };
        brokered.ask(owners, true);
        brokered
    }

    /// Returns whether the broker has reported no channel of the contract so far.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns whether the broker carries the channel, or will when its command runs.
    pub(super) fn has(&self, name: &str) -> bool {
        self.seen.values().any(|seen| seen.name == name)
            || self.of_command.iter().flatten().any(|of| of == name)
    }

    /// Requests a report if it is time.
    pub(super) fn look(&mut self, owners: &Owners) {
        if clock::now() < self.next {
            return;
        }
        self.next = clock::now() + EVERY;
        self.ask(owners, false);
    }

    /// Requests a report before the programs are ended.
    pub(super) fn look_once_more(&mut self, owners: &Owners) {
        self.ask(owners, false);
    }

    fn ask(&mut self, owners: &Owners, is_first: bool) {
        let Some(broker) = &mut self.broker else { return };
        let Ok(status) = broker.channels() else {
            // The broker is gone; its last report stands.
            self.broker = None;
            return;
        };
        for one in status.channels {
            if let Some(seen) = self.seen.get_mut(&one.grant) {
                seen.last = one;
                continue;
            }
            let command = u32::try_from(one.pid).ok().and_then(|pid| owners.of(pid));
            let of_command = command.and_then(|at| self.of_command.get(at)?.clone());
            let by_name = || self.names.iter().find(|name| **name == one.channel.name).cloned();
            let Some(name) = of_command.or_else(by_name) else { continue };
            // A grant that is new has counted nothing before.
            let before = if is_first { one.counts.clone() } else { None };
            let (before, was_broken) = (before.unwrap_or_default(), is_first && one.broken);
            self.seen.insert(one.grant, Seen { name, before, was_broken, last: one });
        }
    }

    /// Returns the outcome of each grant with the name of its channel. A channel with several
    /// grants comes several times.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&str, Outcome)> {
        self.seen.values().map(|seen| (&*seen.name, seen.outcome()))
    }
}

impl Seen {
    fn outcome(&self) -> Outcome {
        let now = self.last.counts.clone().unwrap_or_default();
        let of_ours = |counts: &Counts| {
            let lost = counts.lost.iter().filter(|(cause, _)| OURS.contains(&&**cause));
            lost.map(|(_, count)| count).sum::<u64>()
        };
        let jobs = now.done.saturating_sub(self.before.done);
        let late = now.late.saturating_sub(self.before.late);
        let lost = of_ours(&now).saturating_sub(of_ours(&self.before));
        let is_broken = late > 0 || lost > 0 || (self.last.broken && !self.was_broken);
        let became = match jobs {
            _ if is_broken => PromiseVerdict::Broken(broken(&self.last.verdict)),
            _ if self.last.channel.delay_bound_ns.is_none() => {
                PromiseVerdict::NotJudgeable("nothing was promised".to_owned())
            }
            0 => PromiseVerdict::NotJudgeable("no message came".to_owned()),
            _ => PromiseVerdict::Kept,
        };
        let bound = self.last.channel.delay_bound_ns.unwrap_or(u64::MAX);
        let worst = if late > 0 { now.worst_delay_ns.saturating_sub(bound) } else { 0 };
        Outcome { became, jobs, late, max_tardiness: Duration::from_nanos(worst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(verdict: &str, done: u64, late: u64, lost: u64) -> ChannelStatus {
        let channel = json!({
            "name": "a", "direction": "send", "min_message": 1, "max_message": 160,
            "spacing_ns": 20_000_000, "burst": 1, "delay_bound_ns": 5_000, "address": "192.0.2.7:1",
            "framing": "datagram", "too_early": "wait", "slots": 8,
        });
        let counts = Counts {
            done,
            late,
            lost: vec![("unreachable".to_owned(), lost), ("too early".to_owned(), 9)],
            worst_delay_ns: 7_000,
            ..Counts::default()
        };
        let status = json!({
            "grant": 1, "uid": 0, "pid": 1, "channel": channel, "since": 0, "connected": true,
            "attached": true, "verdict": verdict, "broken": verdict.starts_with("broken"),
            "counts": serde_json::to_value(counts).expect("plain"),
        });
        serde_json::from_value(status).expect("as the broker says it")
    }

    #[test]
    fn promises_broken_before_the_run_do_not_count() {
        let outcome = |before: ChannelStatus, last: ChannelStatus| {
            let was_broken = before.broken;
            let before = before.counts.expect("counted");
            Seen { name: "a".to_owned(), before, was_broken, last }.outcome()
        };
        let old = || status("broken: 1 of 10 messages late", 10, 1, 2);
        let same = outcome(old(), status("broken: 1 of 10 messages late", 30, 1, 2));
        assert_eq!((same.became, same.jobs, same.late), (PromiseVerdict::Kept, 20, 0));
        let late = outcome(old(), status("broken: 3 of 30 messages late", 30, 3, 2));
        assert_eq!((late.jobs, late.late, late.max_tardiness.as_nanos()), (20, 2, 2_000));
        assert_eq!(late.became, PromiseVerdict::Broken("3 of 30 messages late".to_owned()));
        let lost = outcome(old(), status("broken: 4 of 30 messages lost", 30, 1, 4));
        assert!(matches!(lost.became, PromiseVerdict::Broken(_)));
        let idle = outcome(status("kept", 10, 0, 0), status("kept", 10, 0, 0));
        assert!(matches!(idle.became, PromiseVerdict::NotJudgeable(_)));
    }
}
