//! Simulates several reservations under earliest deadline first, each a hard constant-bandwidth
//! server.

use alloc::vec::Vec;

use punctual_model::units::percent;
use punctual_model::{Duration, Instant, Reservation, Service};
use rand::{Rng, RngExt};
use thiserror::Error;

use super::{Processor, Stretch};
use crate::cbs::{Cbs, Charge};

/// The demand of a reservation other than the tasks' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It always wants more.
    Always,
    /// It wants up to three budgets at a time, then nothing for up to two periods. Both are drawn.
    Drawn,
}

/// The reservations of one processor, served by earliest deadline first. At equal deadlines the
/// first in the list goes first. The tasks are inside one of the reservations, or below all.
#[derive(Clone, Debug)]
pub struct Servers<R> {
    servers: Vec<Server>,
    /// The reservation of the tasks. With `None` they get the time that all leave.
    own: Option<usize>,
    rng: R,
    /// The instant up to which everything has happened.
    now: Instant,
    /// The server that has had the processor since then.
    current: Option<usize>,
}

#[derive(Clone, Debug)]
struct Server {
    cbs: Cbs,
    period: Duration,
    awake: bool,
    throttled: Option<Instant>,
    demand: Demand,
    /// The remaining demand of a drawn demand, and the instant at which it wakes if it sleeps.
    wants: Service,
    wakes: Instant,
    reservation: Reservation,
}

/// The reason why these reservations are not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ServerError {
    /// Earliest deadline first cannot keep the reservations.
    #[error("the reservations need {} of the CPU", percent(*.ppm))]
    Overload {
        /// The sum of the shares, rounded up.
        ppm: u64,
    },
    /// There is no reservation at the given position.
    #[error("there is no reservation {own}")]
    NoSuchReservation {
        /// The given position.
        own: usize,
    },
}

impl<R: Rng> Servers<R> {
    /// Makes the processor of `reservations` with their demands. The tasks are inside the one at
    /// position `own`, whose demand is theirs; with `None` they are below all. Drawn demands come
    /// from `rng`.
    ///
    /// # Errors
    /// If the reservations take more than the processor, each share rounded up to parts per
    /// million. For tasks below them, also if they take all of it, because the tasks might never
    /// run.
    pub fn new(
        reservations: &[(Reservation, Demand)],
        own: Option<usize>,
        mut rng: R,
    ) -> Result<Self, ServerError> {
        let ppm: u64 = reservations.iter().map(|(one, _)| one.utilisation_ppm()).sum();
        if ppm > 1_000_000 || (own.is_none() && ppm == 1_000_000) {
            return Err(ServerError::Overload { ppm });
        }
        if let Some(own) = own.filter(|own| *own >= reservations.len()) {
            return Err(ServerError::NoSuchReservation { own });
        }
        let server = |&(reservation, demand): &(Reservation, Demand)| Server {
            cbs: Cbs::new(reservation),
            period: reservation.period(),
            awake: false,
            throttled: None,
            demand,
            wants: Service::ZERO,
            wakes: match demand {
                Demand::Always => Instant::ZERO,
                Demand::Drawn => {
                    Instant::from_nanos(rng.random_range(0..=reservation.period().as_nanos()))
                }
            },
            reservation,
        };
        let mut servers: Vec<Server> = reservations.iter().map(server).collect();
        if let Some(own) = own {
            servers[own].wakes = Instant::MAX;
        }
        Ok(Self { servers, own, rng, now: Instant::ZERO, current: None })
    }

    /// Advances to `to`. Nothing happens in between.
    fn pass(&mut self, to: Instant) {
        let ran = (to - self.now).as_full_service();
        self.now = to;
        let Some(current) = self.current else { return };
        let server = &mut self.servers[current];
        if let Charge::Throttled { until } = server.cbs.charge(ran) {
            server.throttled = Some(until);
        }
        if self.own != Some(current) && server.demand == Demand::Drawn {
            server.wants = server.wants.saturating_sub(ran);
            if server.wants.is_zero() {
                server.awake = false;
                let most = 2 * server.period.as_nanos();
                server.wakes = to + Duration::from_nanos(self.rng.random_range(0..=most));
            }
        }
    }

    /// Handles what is due now: replenishments and wake-ups.
    fn happen(&mut self) {
        let now = self.now;
        for (at, server) in self.servers.iter_mut().enumerate() {
            if self.own != Some(at) && !server.awake && server.wakes <= now {
                server.wake(now);
                let most = server.reservation.budget().as_nanos().saturating_mul(3);
                server.wants = match server.demand {
                    Demand::Always => Service::MAX,
                    Demand::Drawn => Service::from_nanos(self.rng.random_range(1..=most)),
                };
            }
            if server.awake && server.throttled.is_some_and(|until| until <= now) {
                server.throttled = None;
                server.cbs.replenish();
            }
        }
    }

    /// Chooses the server that runs from now on, and returns the instant until which that certainly
    /// holds.
    fn choose(&mut self) -> Instant {
        let runnable = |server: &Server| server.awake && server.throttled.is_none();
        self.current = (0..self.servers.len())
            .filter(|at| runnable(&self.servers[*at]))
            .min_by_key(|at| (self.servers[*at].cbs.deadline(), *at));
        let mut until = Instant::MAX;
        if let Some(current) = self.current {
            let server = &self.servers[current];
            let own = self.own == Some(current);
            let most = if own || server.demand == Demand::Always {
                server.cbs.left()
            } else {
                server.cbs.left().min(server.wants)
            };
            until = self.now + most.at_full_speed();
        }
        for (at, server) in self.servers.iter().enumerate() {
            if self.own != Some(at) && !server.awake {
                until = until.min(server.wakes);
            }
            if let (true, Some(back)) = (server.awake, server.throttled) {
                until = until.min(back);
            }
        }
        until
    }
}

impl Server {
    fn wake(&mut self, now: Instant) {
        self.awake = true;
        if self.throttled.is_some_and(|until| now < until) {
            return;
        }
        // Its budget was replenished while it had no demand, so waking starts a new period.
        self.throttled = None;
        self.cbs.wake(now);
    }
}

impl<R: Rng> Processor for Servers<R> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        // Everything before `now` happens first, with the previous demand of the tasks.
        loop {
            self.happen();
            let until = self.choose();
            if until > now {
                break;
            }
            self.pass(until);
        }
        self.pass(now);
        if let Some(own) = self.own {
            let server = &mut self.servers[own];
            if wanted && !server.awake {
                server.wake(now);
            }
            server.awake = wanted;
        }
        self.happen();
        let until = self.choose();
        Stretch { served: self.current == self.own, until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn servers(
        all: &[(&str, Demand)],
        own: Option<usize>,
    ) -> Result<Servers<ChaCha8Rng>, ServerError> {
        let all: Vec<(Reservation, Demand)> =
            all.iter().map(|(text, demand)| (text.parse().expect("valid"), *demand)).collect();
        Servers::new(&all, own, ChaCha8Rng::seed_from_u64(7))
    }

    /// Returns the served nanoseconds of `0..until` if the tasks always want more.
    fn served(mut servers: Servers<ChaCha8Rng>, until: u64) -> Vec<u64> {
        let (mut now, mut served) = (Instant::ZERO, Vec::new());
        while now < Instant::from_nanos(until) {
            let stretch = servers.at(now, true);
            assert!(stretch.until > now);
            let end = stretch.until.min(Instant::from_nanos(until));
            served.extend((now.as_nanos()..end.as_nanos()).filter(|_| stretch.served));
            now = end;
        }
        served
    }

    #[test]
    fn the_tasks_get_their_reservation_or_what_all_leave() {
        let all = [("2ns/8ns", Demand::Always), ("1ns/4ns", Demand::Always)];
        // The shorter period goes first: 0, 1–2, 4, then 8, 9–10, 12.
        let inside = servers(&all, Some(0)).expect("half");
        assert_eq!(served(inside, 16), [1, 2, 9, 10]);
        let below = servers(&all, None).expect("half");
        assert_eq!(served(below, 16), [3, 5, 6, 7, 11, 13, 14, 15]);
    }

    #[test]
    fn drawn_demand_takes_no_more_than_its_share() {
        let below = servers(&[("3ns/10ns", Demand::Drawn)], None).expect("a third");
        let served = served(below, 100_000).len();
        assert!((70_000..95_000).contains(&served), "{served}");
    }

    #[test]
    fn what_earliest_deadline_does_not_keep_is_refused() {
        let all = [("5ns/10ns", Demand::Always), ("1ns/2ns", Demand::Always)];
        assert!(servers(&all, Some(1)).is_ok());
        assert_eq!(servers(&all, None).err(), Some(ServerError::Overload { ppm: 1_000_000 }));
        let no_such = servers(&all, Some(2)).err();
        assert_eq!(no_such, Some(ServerError::NoSuchReservation { own: 2 }));
    }
}
