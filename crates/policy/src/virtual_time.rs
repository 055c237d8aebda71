//! Best-effort upcalls share the time that real-time ones leave, by weight, in virtual time.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996, §2) with quanta for packets: each
//! upcall has a start tag; the one with the least runs a quantum, and its tag advances by the
//! processor time that it took over its weight. Virtual time is the start tag of the running
//! upcall. An upcall that had nothing to do returns with a tag of at least the virtual time, so it
//! has saved nothing. Between two quanta lies a yield point, where the driver runs real-time
//! upcalls first.

use alloc::vec::Vec;

use punctual_model::{BestEffort, Instant, JobId, Rank, Service};

use crate::numbers::Numbers;
use crate::releases::Releases;
use crate::rmdp::{CreateError, NoSuchUpcall};

/// The state machine. Nothing allocates after construction; turns and requests take O(log n) of its
/// capacity.
///
/// ```
/// use punctual_model::{BestEffort, BestEffortSpec, Duration, Instant, Service};
/// use punctual_policy::virtual_time::{Next, VirtualTime};
///
/// let of_weight = |weight| {
///     BestEffort::new(BestEffortSpec {
///         name: "scrubber".into(),
///         weight,
///         quantum: 1,
///         time_per_pdu: Service::from_micros(100),
///         poll: Duration::from_millis(10),
///     })
/// };
/// let mut fair = VirtualTime::with_capacity(2);
/// fair.create(0, &of_weight(1)?, Instant::ZERO)?;
/// fair.create(1, &of_weight(3)?, Instant::ZERO)?;
/// let mut turns = [0; 2];
/// for _ in 0..40 {
///     let Next::Run(turn) = fair.next(Instant::ZERO) else { panic!("both always want to") };
///     turns[turn.job.task as usize] += 1;
///     fair.ended(&turn, Instant::ZERO, 1, Service::from_micros(100));
/// }
/// assert_eq!(turns, [10, 30]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct VirtualTime {
    /// By position; a free position holds a closed upcall.
    clients: Vec<Client>,
    /// The free positions.
    free: Vec<u32>,
    /// The position of each number.
    numbers: Numbers,
    capacity: usize,
    /// By position: the start tag of active upcalls, as an instant of virtual time.
    tags: Releases,
    /// By position: the time of the next call of idle upcalls.
    polls: Releases,
    /// The start tag of the upcall that ran last.
    virtual_time: u64,
}

#[derive(Clone, Debug)]
struct Client {
    task: u32,
    upcall: Terms,
    /// The number of its current activity: the time from a call until it has nothing to do.
    index: u64,
    /// The time at which the activity began or will begin.
    since: Instant,
    begun: bool,
    active: bool,
    suspended: bool,
    start_tag: u64,
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    weight: u64,
    quantum: u32,
    poll: punctual_model::Duration,
}

/// The next action of the driver.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run a quantum of this upcall, then call [`VirtualTime::ended`].
    Run(Turn),
    /// No upcall has work; call `next` again at this instant ([`Instant::MAX`]: never).
    Idle {
        /// The time at which the next upcall is called.
        until: Instant,
    },
}

/// The turn of a quantum on the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The upcall, and the number of its activity: the time from a call until it has nothing to do.
    pub job: JobId,
    /// The time at which the activity began.
    pub release: Instant,
    /// PDUs to process.
    pub pdus: u32,
    /// True if it is not the first turn of the activity.
    pub resumed: bool,
    rank: Rank,
}

/// One unit of processor time at the largest weight is one of virtual time.
const SCALE: u64 = BestEffort::MAX_WEIGHT as u64;

impl VirtualTime {
    /// Makes a policy without upcalls, with room for `capacity` of them.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            clients: Vec::with_capacity(capacity),
            free: (0..capacity as u32).rev().collect(),
            numbers: Numbers::new(capacity),
            capacity,
            tags: Releases::new(capacity),
            polls: Releases::new(capacity),
            virtual_time: 0,
        }
    }

    /// Creates `upcall` with the number `task`. It is called from `first` on.
    pub fn create(
        &mut self,
        task: u32,
        upcall: &BestEffort,
        first: Instant,
    ) -> Result<(), CreateError> {
        if self.numbers.get(task).is_some() {
            return Err(CreateError::Taken { task });
        }
        let Some(at) = self.free.pop() else {
            return Err(CreateError::Full { capacity: self.capacity });
        };
        self.numbers.insert(task, at);
        let client = Client {
            task,
            upcall: Terms {
                weight: u64::from(upcall.weight().get()),
                quantum: upcall.quantum().get(),
                poll: upcall.poll(),
            },
            index: 0,
            since: first,
            begun: false,
            active: false,
            suspended: false,
            start_tag: 0,
        };
        match self.clients.get_mut(at as usize) {
            Some(gone) => *gone = client,
            // Positions are assigned from the first on.
            None => self.clients.push(client),
        }
        self.file(at as usize);
        Ok(())
    }

    /// Closes an upcall.
    pub fn close(&mut self, task: u32) -> Result<(), NoSuchUpcall> {
        self.suspend(task)?;
        self.free.extend(self.numbers.remove(task));
        Ok(())
    }

    /// Suspends an upcall. It may continue its activity after [`Self::resume`].
    pub fn suspend(&mut self, task: u32) -> Result<(), NoSuchUpcall> {
        let at = self.find(task)?;
        self.clients[at].suspended = true;
        self.file(at);
        Ok(())
    }

    /// Suspends an upcall because its handler did not return from its turn, which never ends. After
    /// [`Self::resume`] it begins a new activity.
    pub fn contain(&mut self, task: u32) -> Result<(), NoSuchUpcall> {
        let at = self.find(task)?;
        let client = &mut self.clients[at];
        client.suspended = true;
        client.active = false;
        client.begun = false;
        client.index += 1;
        self.file(at);
        Ok(())
    }

    /// Resumes an upcall: it is called from `from` on, or at once if it was suspended during an
    /// activity.
    pub fn resume(&mut self, task: u32, from: Instant) -> Result<(), NoSuchUpcall> {
        let at = self.find(task)?;
        let client = &mut self.clients[at];
        if client.suspended {
            client.suspended = false;
            client.active = false;
            if !client.begun {
                client.since = from;
            }
        }
        self.file(at);
        Ok(())
    }

    /// Returns the upcall that runs a quantum at `now`, for a driver without ready real-time
    /// upcalls.
    pub fn next(&mut self, now: Instant) -> Next {
        while self.polls.earliest() <= now && now < Instant::MAX {
            let at = self.polls.earliest_rank().0 as usize;
            let client = &mut self.clients[at];
            client.active = true;
            client.start_tag = client.start_tag.max(self.virtual_time);
            self.file(at);
        }
        if self.tags.earliest() == Instant::MAX {
            return Next::Idle { until: self.polls.earliest() };
        }
        let rank = self.tags.earliest_rank();
        let client = &mut self.clients[rank.0 as usize];
        self.virtual_time = client.start_tag;
        let job = JobId { task: client.task, index: client.index };
        let resumed = core::mem::replace(&mut client.begun, true);
        let (release, pdus) = (client.since, client.upcall.quantum);
        Next::Run(Turn { job, release, pdus, resumed, rank })
    }

    /// Records that the turn ended at `now` and took `service` for `pdus` PDUs; zero: the upcall
    /// has nothing to do.
    pub fn ended(&mut self, turn: &Turn, now: Instant, pdus: u32, service: Service) {
        let at = turn.rank.0 as usize;
        let client = &mut self.clients[at];
        let passed = service.as_nanos().saturating_mul(SCALE) / client.upcall.weight;
        // The last instant of virtual time would mean never.
        client.start_tag = client.start_tag.saturating_add(passed).min(u64::MAX - 1);
        if pdus == 0 {
            client.active = false;
            client.begun = false;
            client.index += 1;
            client.since = now.saturating_add(client.upcall.poll);
        }
        self.file(at);
    }

    fn find(&self, task: u32) -> Result<usize, NoSuchUpcall> {
        self.numbers.get(task).map(|at| at as usize).ok_or(NoSuchUpcall { task })
    }

    /// Updates the tables to the state of a client.
    fn file(&mut self, at: usize) {
        let (client, rank) = (&self.clients[at], Rank(at as u32));
        let (tag, poll) = match (client.suspended, client.active) {
            (true, _) => (Instant::MAX, Instant::MAX),
            (false, true) => (Instant::from_nanos(client.start_tag), Instant::MAX),
            (false, false) => (Instant::MAX, client.since),
        };
        self.tags.set(rank, tag);
        self.polls.set(rank, poll);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use punctual_model::{BestEffortSpec, Duration};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn upcall(weight: u32) -> BestEffort {
        BestEffort::new(BestEffortSpec {
            name: String::from("u"),
            weight,
            quantum: 2,
            time_per_pdu: Service::from_micros(10),
            poll: Duration::from_millis(10),
        })
        .expect("valid")
    }

    fn turn(next: Next) -> Turn {
        match next {
            Next::Run(turn) => turn,
            Next::Idle { until } => panic!("idle until {until}"),
        }
    }

    #[test]
    fn shares_follow_the_weights_within_a_quantum_each() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let weights: [u32; 4] = [1, 2, 5, 100];
        let mut fair = VirtualTime::with_capacity(4);
        for (weight, task) in weights.into_iter().zip(0..) {
            fair.create(task, &upcall(weight), at(0)).expect("room");
        }
        let mut got = [0u64; 4];
        const LONGEST: u64 = 1_000;
        for _ in 0..20_000 {
            let turn = turn(fair.next(at(0)));
            let service = rng.random_range(1..=LONGEST);
            got[turn.job.task as usize] += service;
            fair.ended(&turn, at(0), 2, Service::from_nanos(service));
            // Theorem 1 of the paper: any two that are always active differ by at most a quantum
            // each, over the weight.
            for (a, b) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
                let share = |i: usize| got[i] as f64 / f64::from(weights[i]);
                let bound =
                    LONGEST as f64 * (1.0 / f64::from(weights[a]) + 1.0 / f64::from(weights[b]));
                assert!((share(a) - share(b)).abs() <= bound + 1.0, "{got:?}");
            }
        }
    }

    #[test]
    fn an_idle_upcall_is_called_a_poll_later_and_has_saved_nothing() {
        let mut fair = VirtualTime::with_capacity(2);
        fair.create(4, &upcall(1), at(0)).expect("room");
        fair.create(5, &upcall(1), at(0)).expect("room");
        assert_eq!(fair.create(5, &upcall(1), at(0)), Err(CreateError::Taken { task: 5 }));
        assert_eq!(fair.create(6, &upcall(1), at(0)), Err(CreateError::Full { capacity: 2 }));
        let first = turn(fair.next(at(0)));
        assert_eq!((first.job, first.pdus, first.resumed), (JobId { task: 4, index: 0 }, 2, false));
        fair.ended(&first, at(0), 0, Service::ZERO);
        for ms in 0..10 {
            let other = turn(fair.next(at(ms)));
            assert_eq!((other.job.task, other.resumed), (5, ms > 0));
            fair.ended(&other, at(ms + 1), 2, Service::from_millis(1));
        }
        // From 10 ms on they alternate: the one that slept is not served ten times in a row.
        let tasks: Vec<u32> = (10..16)
            .map(|ms| {
                let turn = turn(fair.next(at(ms)));
                fair.ended(&turn, at(ms + 1), 2, Service::from_millis(1));
                turn.job.task
            })
            .collect();
        let slept = tasks.iter().filter(|task| **task == 4).count();
        assert!((3..=4).contains(&slept), "{tasks:?}");
    }

    #[test]
    fn a_contained_one_begins_anew_when_it_is_resumed_and_not_before() {
        let mut fair = VirtualTime::with_capacity(1);
        fair.create(0, &upcall(1), at(0)).expect("room");
        assert_eq!(turn(fair.next(at(1))).job, JobId { task: 0, index: 0 });
        fair.contain(0).expect("there");
        assert_eq!(fair.next(at(2)), Next::Idle { until: Instant::MAX });
        fair.resume(0, at(12)).expect("there");
        assert_eq!(fair.next(at(11)), Next::Idle { until: at(12) });
        let again = turn(fair.next(at(12)));
        assert_eq!(
            (again.job, again.release, again.resumed),
            (JobId { task: 0, index: 1 }, at(12), false)
        );
        assert_eq!(fair.contain(3), Err(NoSuchUpcall { task: 3 }));
    }

    #[test]
    fn suspended_and_closed_ones_are_not_asked() {
        let mut fair = VirtualTime::with_capacity(2);
        fair.create(0, &upcall(1), at(5)).expect("room");
        assert_eq!(fair.next(at(4)), Next::Idle { until: at(5) });
        fair.suspend(0).expect("there");
        assert_eq!(fair.next(at(9)), Next::Idle { until: Instant::MAX });
        fair.resume(0, at(12)).expect("there");
        assert_eq!(fair.next(at(9)), Next::Idle { until: at(12) });
        assert_eq!(turn(fair.next(at(12))).release, at(12));
        fair.close(0).expect("there");
        assert_eq!(fair.next(at(20)), Next::Idle { until: Instant::MAX });
        assert_eq!(fair.close(0), Err(NoSuchUpcall { task: 0 }));
        // A new upcall inherits nothing from the closed one at its position.
        fair.create(7, &upcall(1), at(30)).expect("room");
        fair.create(8, &upcall(1), at(31)).expect("room");
        assert_eq!(fair.create(9, &upcall(1), at(0)), Err(CreateError::Full { capacity: 2 }));
        assert_eq!(fair.next(at(20)), Next::Idle { until: at(30) });
        assert_eq!(turn(fair.next(at(30))).job, JobId { task: 7, index: 0 });
    }
}
