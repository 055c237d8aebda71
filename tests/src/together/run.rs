//! Runs one admitted system: first everything above the tasks, then the tasks.

use punctual_analysis::channel::deadline_monotonic;
use punctual_analysis::channel::egress::Egress;
use punctual_analysis::mapping::{Mapping, expand};
use punctual_analysis::{Grant, Steps, admit_within};
use punctual_model::channel::{Channel, Sender};
use punctual_model::{Contract, Duration, HostProfile, Instant, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Adversarial, Arrival, Arrivals, Attack, Bursty, Drawn, Periodic};
use punctual_sim::egress::traffic::{
    Backlog, Delays, Message, NotAccepted, Occupant, Sent, Sink, drawn, greedy,
};
use punctual_sim::egress::{Costs, Server, Setup};
use punctual_sim::overheads::Overheads;
use punctual_sim::processor::{Processor, Taken};
use punctual_sim::streams::{Streams, Turns};
use punctual_sim::tasks::{Eager, Setting, run_in};
use punctual_trace::Sink as TraceSink;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stretch of processor time, used by the sending thread or (`None`) by a reservation.
pub(super) type Part = (Option<Occupant>, Instant, Instant);

/// The activity of the sending host.
pub(super) struct Above {
    pub(super) delays: Delays,
    /// The occupants of the processor, stretch by stretch.
    pub(super) parts: Vec<Part>,
}

impl Sink for Above {
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        match self.parts.last_mut() {
            Some((last, _, end)) if *last == Some(by) && *end == from => *end = to,
            _ => self.parts.push((Some(by), from, to)),
        }
    }

    fn sent(&mut self, message: Sent) {
        self.delays.sent(message);
    }

    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted) {
        self.delays.refused(channel, at, why);
    }
}

/// One admitted system.
#[derive(Clone)]
pub(super) struct System {
    /// The contract, with its streams expanded into upcalls and channels.
    pub(super) contract: Contract,
    /// The upcalls and channels of each stream.
    pub(super) mappings: Vec<Mapping>,
    pub(super) host: HostProfile,
    sender: Sender,
    egress: Egress,
    pub(super) grant: Grant,
    /// The channels by rank, and the position of each in the contract.
    pub(super) channels: Vec<Channel>,
    pub(super) ranked: Vec<usize>,
}

impl System {
    pub(super) fn admitted((contract, host): (Contract, HostProfile)) -> Option<Self> {
        let grant = admit_within(&contract, &host, &mut Steps::new(4_000_000)).ok()?;
        let (contract, mappings) = expand(&contract, &host).ok()?;
        let spec = contract.sender?;
        let sender = spec.sender(host.send_costs)?;
        let egress = Egress::of(&spec, sender.costs, host.wake_up).ok()?;
        let ranked = deadline_monotonic(&contract.channels);
        let channels = ranked.iter().map(|&at| contract.channels[at].clone()).collect();
        Some(Self { contract, mappings, host, sender, egress, grant, channels, ranked })
    }

    /// Returns the system with the tasks of one CPU alone, on which everything else runs too.
    pub(super) fn as_on(&self, cpu: u16) -> Self {
        let mut here = self.clone();
        let mut placed = self.grant.tasks.iter().map(|task| task.cpu == cpu);
        here.contract.tasks.retain(|_| placed.next().unwrap_or(false));
        here.grant.tasks.retain(|task| task.cpu == cpu);
        here
    }

    /// Returns the origin of a run, late enough for every jitter and late budget. Only a few early
    /// messages come before it.
    pub(super) fn origin(&self) -> Instant {
        let jitter = self.contract.tasks.iter().map(Task::release_jitter).max();
        let late = self.contract.reservations.iter().map(|named| named.reservation.period()).max();
        let spacing = self.channels.iter().map(|c| c.arrivals().min_inter_arrival()).max();
        let of = |time: Option<Duration>| time.unwrap_or_default();
        Instant::from_nanos(1_000_000) + of(jitter) + of(late) + of(spacing)
    }

    /// Returns the budgets with their switches, each used as soon as the others allow. None can be
    /// later: a holder that wakes late is given a fresh period.
    fn reserved(&self, until: Instant, rng: &mut ChaCha8Rng) -> Vec<Part> {
        let switch = self.host.context_switch;
        let mut budgets = Vec::new();
        for named in &self.contract.reservations {
            let work = (named.reservation.budget() + switch + switch).at_full_speed();
            let period = named.reservation.period();
            let back = match rng.random_range(0..3) {
                0 => Duration::ZERO,
                1 => Duration::from_nanos(rng.random_range(0..1_000_000)),
                _ => Duration::from_nanos(rng.random_range(0..period.as_nanos())),
            };
            let mut at = self.origin() - back;
            while at < until {
                budgets.push((at, work));
                at += period;
            }
        }
        budgets.sort_unstable();
        let mut end = Instant::ZERO;
        let part = |(at, work): (Instant, Duration)| {
            let from = at.max(end);
            end = from + work;
            (None, from, end)
        };
        budgets.into_iter().map(part).collect()
    }

    /// Returns the stream to which the upcall or channel `name` belongs, if any.
    pub(super) fn stream_of(&self, name: &str) -> Option<usize> {
        let is_of = |it: &Mapping| it.upcall.name() == name || it.channel.name() == name;
        self.mappings.iter().position(is_of)
    }

    fn sources<'a>(
        &self,
        until: Instant,
        streams: &'a Streams,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Box<dyn Iterator<Item = Message> + 'a>> {
        let pattern = rng.random_range(0..4);
        let step = rng.random_range(1..1_500_000);
        let source = |(channel, at): (&Channel, u64)| -> Box<dyn Iterator<Item = Message> + 'a> {
            if let Some(stream) = self.stream_of(channel.name()) {
                return Box::new(streams.handed_over(stream));
            }
            let traffic = channel.arrivals();
            let spacing = traffic.min_inter_arrival().as_nanos();
            let origin = self.origin();
            let first = match pattern {
                0 => origin,
                // So that its packets may still be handed over when the tasks come.
                1 => origin - Duration::from_nanos(rng.random_range(0..=spacing)),
                2 => origin + Duration::from_nanos(step * (self.channels.len() as u64 - 1 - at)),
                _ => origin - Duration::from_nanos(spacing),
            };
            let draws = ChaCha8Rng::seed_from_u64(rng.random());
            match pattern {
                3 => Box::new(drawn(traffic, first, draws).take_while(move |m| m.at < until)),
                _ => Box::new(greedy(traffic, first).take_while(move |m| m.at < until)),
            }
        };
        self.channels.iter().zip(0..).map(source).collect()
    }

    /// Draws best-effort traffic that begins just before the channels, and goes on whenever there
    /// is time for it.
    fn backlog(&self, rng: &mut ChaCha8Rng) -> Option<Backlog> {
        let bytes = self.sender.best_effort.most()?;
        let back = rng.random_range(0..=400_000u64);
        let first = self.origin() - Duration::from_nanos(if rng.random() { 1 } else { back });
        let pause = [Duration::ZERO, Duration::from_micros(300), Duration::MAX];
        let pause = pause[rng.random_range(0..3)];
        rng.random_bool(0.8).then_some(Backlog { bytes, first, pause })
    }

    /// Calls `with` with the sending thread, which serves the messages until `until`, and the
    /// reservations above it.
    pub(super) fn sending<C: Costs, K: Sink, R>(
        &self,
        until: Instant,
        (costs, sink): (C, K),
        streams: &Streams,
        rng: &mut ChaCha8Rng,
        with: impl FnOnce(Thread<'_, C, K>, Vec<Part>, &mut ChaCha8Rng) -> R,
    ) -> R {
        let reserved = self.reserved(until, rng);
        let backlogs = Vec::from_iter(self.backlog(rng));
        let pace = self.egress.pace().unwrap_or(Duration::ZERO);
        let setup = Setup {
            link: self.egress.link(),
            cut: self.egress.cut(),
            per_packet: self.egress.per_packet(),
            pace,
            wakes_within: self.egress.allowance().min(pace),
            channels: &self.channels,
            held: &[],
            room: 64,
            backlogs: &backlogs,
        };
        let sources = self.sources(until, streams, rng);
        let left = Taken::new(reserved.iter().map(|&(_, from, to)| (from, to)));
        with(Server::new(setup, left, sources, costs, sink), reserved, rng)
    }

    pub(super) fn send(&self, until: Instant, costs: impl Costs, rng: &mut ChaCha8Rng) -> Above {
        let end = until + Duration::from_secs(60);
        let mut above = Above { delays: Delays::new(&self.channels), parts: Vec::new() };
        let to = (costs, &mut above);
        let none = Streams::new([]);
        let reserved = self.sending(until, to, &none, rng, |mut thread, reserved, _| {
            assert_eq!(thread.finish(end), 0, "every message leaves");
            reserved
        });
        above.parts.extend(reserved);
        above.parts.sort_by_key(|part| (part.1, part.2));
        above
    }

    /// Returns the time that the tasks lose: everything above them, and after handlers the change
    /// back to a task, which a next handler only delays. A handler that a reservation interrupted
    /// costs a change as well, where that is dearer than the reservation's own switch.
    pub(super) fn taken(&self, parts: &[Part]) -> Taken {
        let change = self.sender.costs.change_of_handler();
        let dearer = change.saturating_sub(self.host.context_switch).at_full_speed();
        let change = change.at_full_speed();
        let is_handler = |by: Option<Occupant>| by.is_some();
        let mut stretches = Vec::new();
        let (mut owed, mut end, mut handlers) = (Duration::ZERO, Instant::ZERO, false);
        for (at, &(by, from, to)) in parts.iter().enumerate() {
            if end < from {
                owed += if core::mem::take(&mut handlers) { change } else { Duration::ZERO };
                let back = owed.min(from - end);
                stretches.push((end, end + back));
                owed -= back;
            }
            let touches = |other: usize, at_that: fn(&Part) -> Instant, instant| {
                parts.get(other).is_some_and(|part| is_handler(part.0) && at_that(part) == instant)
            };
            let interrupts = by.is_none()
                && touches(at.wrapping_sub(1), |part| part.2, from)
                && touches(at + 1, |part| part.1, to);
            owed += if interrupts { dearer } else { Duration::ZERO };
            handlers |= is_handler(by);
            stretches.push((from, to));
            end = to;
        }
        owed += if handlers { change } else { Duration::ZERO };
        stretches.push((end, end + owed));
        Taken::new(stretches)
    }

    /// Returns how long each task has jobs: four of the longest period, and the jitter.
    pub(super) fn for_four_jobs(&self) -> Duration {
        let of_all = |of: fn(&Task) -> Duration| self.contract.tasks.iter().map(of).max();
        let longest = of_all(Task::min_inter_arrival).unwrap_or_default();
        longest * 4 + of_all(Task::release_jitter).unwrap_or_default()
    }

    /// Runs the tasks and returns how many jobs were not complete when they were due. All releases
    /// come at `critical` or later, and none `after` that.
    pub(super) fn run_tasks(
        &self,
        processor: impl Processor,
        (critical, after): (Instant, Duration),
        rng: &mut ChaCha8Rng,
        sink: &mut impl TraceSink,
    ) -> u64 {
        let tasks = &self.contract.tasks;
        let of_all = |of: fn(&Task) -> Duration| tasks.iter().map(of).max().unwrap_or_default();
        let fresh = || ChaCha8Rng::seed_from_u64(critical.as_nanos());
        let (mut arrivals, first): (Box<dyn Arrivals + '_>, Instant) = match rng.random_range(0..6)
        {
            0..3 => {
                let blocker = (0..tasks.len() as u32).max_by_key(|&at| {
                    let task = &tasks[at as usize];
                    (task.quantum(), at)
                });
                let lead = self.host.context_switch.at_full_speed();
                let blocker = blocker.filter(|_| rng.random());
                let pattern =
                    Adversarial::new(tasks, Attack { blocker, lead, ..Attack::default() });
                let earlier = blocker.map_or(Duration::ZERO, |_| lead + Duration::from_nanos(1));
                let first = pattern.critical_instant() - earlier;
                (Box::new(pattern), first)
            }
            3 => {
                let phases: Vec<Duration> = tasks.iter().map(Task::release_jitter).collect();
                (Box::new(Periodic::new(tasks, &phases)), Instant::ZERO)
            }
            4 => (Box::new(Drawn::new(tasks, fresh())), Instant::ZERO),
            _ => (Box::new(Bursty::new(tasks, fresh())), Instant::ZERO),
        };
        let shift = critical.saturating_since(first);
        let arrivals = Later { arrivals: &mut *arrivals, by: shift };
        let period = |task: &Task| self.stream_of(task.name()).map(|_| task.min_inter_arrival());
        let mut arrivals = Turns::new(arrivals, tasks.iter().map(period), critical);
        let until = critical + after;
        let end = until + of_all(Task::relative_deadline) + Duration::from_nanos(1);
        let often = [0.0, 0.5, 1.0][rng.random_range(0..3)];
        let eager: Vec<bool> = tasks.iter().map(|_| rng.random_bool(often)).collect();
        let HostProfile { context_switch: switch, wake_up, .. } = self.host;
        let costs = Overheads { switch, wake_up, ..Overheads::default() };
        let setting = Setting::default().costing(costs).yielding(Eager(&eager));
        let setting = setting.on(processor, end);
        let jobs = Jobs::of(self.contract.policy, tasks, 0);
        run_in(setting, tasks, jobs, &mut arrivals, until, sink).len() as u64
    }
}

/// The sending thread, on the time that reservations leave.
pub(super) type Thread<'a, C, K> = Server<'a, Taken, Box<dyn Iterator<Item = Message> + 'a>, C, K>;

/// Arrivals that come later by a fixed duration.
struct Later<'a> {
    arrivals: &'a mut dyn Arrivals,
    by: Duration,
}

impl Arrivals for Later<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let Arrival { release, known, exec_time } = self.arrivals.next(task);
        Arrival { release: release + self.by, known: known + self.by, exec_time }
    }
}
