//! Sends on the channels of a contract through the sender's thread to an emulated link without a
//! receiver: messages of the largest size, first a burst, and then one as often as the contract
//! allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_channel::account::{Account, Recorder, Verdict};
use punctual_channel::client::{Geometry, SendError, Sending};
use punctual_channel::rings::{Takes, both};
use punctual_channel::server::events::Events;
use punctual_channel::server::ringer::Ringers;
use punctual_channel::server::sender::Opening;
use punctual_channel::server::sender::thread::{SenderThread, Setup};
use punctual_channel::transport::{NullDevice, Wire};
use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_model::channel::{Channel, Framing, LinearBounded, SenderSpec};
use punctual_model::{Contract, Duration, Instant, Rank};
use punctual_observe::Session;
use punctual_policy::egress::{Promise as Promised, Terms};
use punctual_policy::queues::ServiceOrder;
use punctual_ring::spsc::Consumer;
use punctual_runtime::level_order::GUARD;
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use super::promises::{Outcome, PromiseVerdict, broken};
use super::report;
use super::synthetic::Undriven;

/// The capacity for events: a second of 65,536 messages.
const EVENTS: usize = 1 << 17;

/// The time beyond the longest delay bound in which the last messages may leave after the sources
/// have stopped.
const LEAVING: Duration = Duration::from_secs(1);

/// The interval between checks whether all messages have left.
const LOOK: Duration = Duration::from_millis(5);

/// The time until the first messages, in which everything is set up.
const LEAD: Duration = Duration::from_millis(20);

/// A sender's thread, and the sources that feed it.
pub(super) struct Emulated {
    _thread: SenderThread,
    sources: Option<JoinHandle<Vec<Source>>>,
    stop: Arc<AtomicBool>,
    events: Consumer<Event>,
    lost: u64,
    channels: Vec<Carried>,
    longest: Duration,
}

struct Carried {
    name: String,
    /// Its number in the session.
    number: u32,
    account: Arc<Account>,
}

/// The running sender, if there is one, and the channels that cannot be sent on.
pub(super) type Started = (Option<Emulated>, Vec<Undriven>);

impl Emulated {
    /// Sends on those channels of `contract` that `wanted` names. The contract's streams must be
    /// expanded.
    pub(super) fn start(
        contract: &Contract,
        wanted: impl Fn(&str) -> bool,
        session: &mut Session,
    ) -> Started {
        let channels = contract.channels.iter().filter(|channel| wanted(channel.name()));
        let channels: Vec<&Channel> = channels.collect();
        let (Some(spec), false) = (contract.sender, channels.is_empty()) else {
            return (None, Vec::new());
        };
        match Self::open(contract, spec, &channels, session) {
            Ok((emulated, not)) => (Some(emulated), not),
            Err(why) => {
                let not = |channel: &&Channel| Undriven {
                    name: channel.name().to_owned(),
                    why: format!("the sender of channels cannot be started: {why}"),
                };
                (None, channels.iter().map(not).collect())
            }
        }
    }

    fn open(
        contract: &Contract,
        spec: SenderSpec,
        channels: &[&Channel],
        session: &mut Session,
    ) -> Result<(Self, Vec<Undriven>), String> {
        let room = u32::try_from(channels.len()).map_err(|why| why.to_string())?;
        let (tells, events) = Events::new(EVENTS);
        // The sender itself keeps to the times of the link, so the device has room for everything.
        let device = NullDevice::new(spec.link, u32::MAX, Duration::MAX, ());
        let mut thread = SenderThread::start(Setup {
            link: spec.link,
            cut: spec.packetisation,
            order: ServiceOrder::Deadline,
            pace: Duration::ZERO,
            room,
            wire: Wire::Null(device),
            events: Some(tells),
        })
        .map_err(|why| why.to_string())?;
        let tid = thread.tid();
        // The level is the broker's: above upcalls.
        sched::set(tid, Class::Fifo { priority: GUARD + 1 }).map_err(|why| why.to_string())?;
        let (mut carried, mut sources, mut not) = (Vec::new(), Vec::new(), Vec::new());
        let first = clock::now() + LEAD;
        for channel in channels {
            let key = carried.len() as u32;
            match attach(contract, spec, channel, key, &mut thread) {
                Ok((sending, account)) => {
                    let number = session.add(Subject {
                        promise: Promise {
                            period: Some(channel.arrivals().min_inter_arrival()),
                            relative_deadline: Some(channel.delay_bound()),
                            wcet: None,
                        },
                        thread: u32::try_from(tid.as_raw()).ok(),
                        ..Subject::new(channel.name(), SubjectKind::Channel)
                    });
                    carried.push(Carried { name: channel.name().to_owned(), number, account });
                    sources.push(Source::new(sending, channel.arrivals(), first));
                }
                Err(why) => not.push(Undriven { name: channel.name().to_owned(), why }),
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let sources = std::thread::Builder::new()
            .name("sources".into())
            .spawn({
                let stop = Arc::clone(&stop);
                move || send_all(sources, &stop)
            })
            .map_err(|why| why.to_string())?;
        let longest = channels.iter().map(|channel| channel.delay_bound()).max();
        let longest = longest.unwrap_or_default();
        let sources = Some(sources);
        let channels = carried;
        Ok((Self { _thread: thread, sources, stop, events, lost: 0, channels, longest }, not))
    }

    /// Passes the events since the last call to the session.
    pub(super) fn tell(&mut self, session: &mut Session) {
        while let Some(mut event) = self.events.pop() {
            if let Some(channel) = self.channels.get(event.job.task as usize) {
                event.job.task = channel.number;
                session.record(event);
            }
        }
        let lost = self.events.lost();
        if lost > self.lost {
            session.lost(lost - self.lost);
            self.lost = lost;
        }
    }

    /// Stops the sources and waits until their messages have left or are overdue. Returns the
    /// number in the session and the outcome of each channel.
    pub(super) fn stop(mut self, session: &mut Session) -> Vec<report::Channel> {
        self.stop.store(true, Ordering::Relaxed);
        // The thread does not panic; if it did, it has printed the reason, and its queues are gone.
        let sources = self.sources.take().and_then(|sources| sources.join().ok());
        let mut sources = sources.unwrap_or_default();
        let until = clock::now().saturating_add(self.longest).saturating_add(LEAVING);
        while sources.iter_mut().any(|source| source.unreleased() > 0) && clock::now() < until {
            self.tell(session);
            clock::sleep(LOOK);
        }
        self.tell(session);
        let now = clock::now();
        let outcome = |one: &Carried| (one.name.clone(), one.number, outcome(&one.account, now));
        let all = self.channels.iter().map(outcome).collect();
        // The queues live until here: closing their bells would end the channels before they are
        // judged.
        drop(sources);
        all
    }
}

/// Opens a channel. Returns the client's end and the account.
fn attach(
    contract: &Contract,
    spec: SenderSpec,
    channel: &Channel,
    key: u32,
    thread: &mut SenderThread,
) -> Result<(Sending, Arc<Account>), String> {
    let (arrivals, delay_bound) = (channel.arrivals(), channel.delay_bound());
    let route = contract.routes.iter().find(|route| route.channel == channel.name());
    let packet_bytes = spec.packetisation.packet_bytes();
    let framing = route.map(|route| route.framing);
    let framing = framing.unwrap_or(Framing::of(arrivals.max_message(), packet_bytes));
    let framing = match framing {
        // A message that is too long for a datagram of this link goes in fragments.
        Framing::Datagram if arrivals.max_message() > packet_bytes => Framing::Fragments,
        framing => framing,
    };
    // Room for a burst, the messages that wait for their logical arrival, and one being written.
    let inside = (delay_bound / arrivals.min_inter_arrival()).saturating_add(2);
    let slots = u64::from(arrivals.max_burst()).saturating_add(inside).next_power_of_two();
    let slots = u32::try_from(slots.min(u64::from(Geometry::MAX_SLOTS))).unwrap_or(1);
    let geometry = Geometry::new(slots, arrivals.max_message()).map_err(|why| why.to_string())?;
    let (client, server) = both::<Takes>(geometry).map_err(|why| why.to_string())?;
    let bell = Ringers::default().enter(0, server.bell).map_err(|why| why.to_string())?;
    let recorder = Recorder::new(Some(delay_bound));
    let account = Arc::clone(recorder.account());
    let opening = Opening {
        terms: Terms {
            arrivals,
            // Deadlines decide here, not ranks.
            promise: Promised::RealTime { rank: Rank(0), delay_bound },
            too_early: route.map(|route| route.too_early).unwrap_or_default(),
        },
        framing,
        number: key,
        takes: server.end,
        bell,
        doorbell: server.doorbell,
        recorder,
        believed_from: clock::now(),
    };
    let policing = route.map(|route| route.policing).unwrap_or_default();
    thread.open_policed(key, opening, policing, None).map_err(|why| why.to_string())?;
    Ok((client.into(), account))
}

/// Judges a channel by its own account.
fn outcome(account: &Account, now: Instant) -> Outcome {
    let seen = account.snapshot();
    let worst = seen.worst_lateness_nanos.unwrap_or(0).max(0).cast_unsigned();
    let verdict = seen.verdict(now);
    let became = match verdict {
        Verdict::Kept => PromiseVerdict::Kept,
        Verdict::Broken(_) => PromiseVerdict::Broken(broken(&verdict.to_string())),
        Verdict::NotJudgeable(_) => PromiseVerdict::NotJudgeable(verdict.to_string()),
    };
    let (jobs, late) = (seen.sent, seen.late);
    Outcome { became, jobs, late, max_tardiness: Duration::from_nanos(worst) }
}

/// The longest time between two checks of `stop`.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// The source of one channel.
struct Source {
    sending: Sending,
    message: Vec<u8>,
    pace: Pace,
}

impl Source {
    fn new(sending: Sending, traffic: LinearBounded, first: Instant) -> Self {
        let message = vec![0; traffic.max_message() as usize];
        Self { sending, message, pace: Pace::new(traffic, first) }
    }

    /// Returns the number of messages that have not left.
    fn unreleased(&mut self) -> u64 {
        // A corrupt queue has been ended by the sender, which reports it.
        self.sending.unreleased().unwrap_or(0)
    }
}

/// The schedule of a source.
struct Pace {
    due: Instant,
    spacing: Duration,
    /// The messages of the burst that may follow the next one at once.
    at_once: u32,
}

impl Pace {
    fn new(traffic: LinearBounded, first: Instant) -> Self {
        let (spacing, burst) = (traffic.min_inter_arrival(), traffic.max_burst());
        Self { due: first, spacing, at_once: burst - 1 }
    }

    /// Notes that a message was sent at `now`. A late source does not catch up, because that might
    /// exceed the contract.
    fn sent(&mut self, now: Instant) {
        match self.at_once.checked_sub(1) {
            Some(left) => self.at_once = left,
            None => self.due = self.due.max(now).saturating_add(self.spacing),
        }
    }
}

/// Sends until `stop` is set. Returns the queues with the messages left in them.
fn send_all(mut all: Vec<Source>, stop: &Arc<AtomicBool>) -> Vec<Source> {
    let mut gone = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let next = all.iter().map(|one| one.pace.due).min().unwrap_or(Instant::MAX);
        clock::sleep_until(next.min(clock::now() + STOP_LOOK));
        for at in (0..all.len()).rev() {
            let source = &mut all[at];
            while source.pace.due <= clock::now() {
                match source.sending.try_send(&source.message) {
                    // Without room the message is skipped; the channel counts the lateness of
                    // those inside.
                    Ok(()) | Err(SendError::Full { .. }) => source.pace.sent(clock::now()),
                    // The sender has ended the channel, and reports the reason.
                    Err(_) => {
                        gone.push(all.swap_remove(at));
                        break;
                    }
                }
            }
        }
    }
    all.append(&mut gone);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_source_still_conforms() {
        let traffic = LinearBounded::fixed(100, Duration::from_nanos(10), 3).expect("valid");
        let mut pace = Pace::new(traffic, Instant::from_nanos(5));
        let mut sent: Vec<u64> = Vec::new();
        // The source is late twice.
        for late in [0, 0, 0, 0, 4, 0, 0, 35, 0, 0] {
            let now = pace.due.saturating_add(Duration::from_nanos(late));
            sent.push(now.as_nanos());
            pace.sent(now);
        }
        assert_eq!(sent[..4], [5, 5, 5, 15]);
        // No window holds more than the contract allows.
        for (first, from) in sent.iter().enumerate() {
            for (nth, to) in sent[first..].iter().enumerate() {
                let window = Duration::from_nanos(to - from + 1);
                assert!(traffic.arrivals_in(window) > Some(nth as u64), "{sent:?}");
            }
        }
    }
}
