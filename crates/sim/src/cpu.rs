//! Simulates a CPU as one thread sees it.

use punctual_model::{Duration, Instant, Reservation, Service};

use crate::cbs::{Cbs, Charge};

/// The part of the CPU that the thread gets, and when.
#[derive(Clone, Copy, Debug)]
pub enum Supply {
    /// The whole CPU at once, as for the most urgent thread of an otherwise idle real-time class.
    Whole,
    /// A hard reservation, served as soon as it has budget: the best case.
    Reserved(Reservation),
    /// A hard reservation, served as late as its guarantee allows: the worst case. Each budget
    /// comes at the end of its period.
    ReservedLate(Reservation),
    /// An ordinary thread among `competitors` that never sleep. It gets one `slice` in each round
    /// of all threads. This models the share and the gap between two slices of a fair scheduler; a
    /// real one favours a thread that slept.
    Fair {
        /// The number of threads that always want the CPU.
        competitors: u32,
        /// The time for which each runs before the next.
        slice: Duration,
    },
}

/// The virtual clock, advanced by what the thread does.
#[derive(Clone, Debug)]
pub struct Cpu {
    now: Instant,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Whole,
    Reserved { cbs: Cbs, late: bool },
    Fair { round: Duration, slice: Duration },
}

impl Cpu {
    /// Makes a CPU at instant `start`.
    pub fn new(supply: Supply, start: Instant) -> Self {
        let state = match supply {
            Supply::Whole => State::Whole,
            Supply::Reserved(reservation) => {
                State::Reserved { cbs: Cbs::new(reservation), late: false }
            }
            Supply::ReservedLate(reservation) => {
                State::Reserved { cbs: Cbs::new(reservation), late: true }
            }
            Supply::Fair { competitors, slice } => {
                State::Fair { round: slice * (u64::from(competitors) + 1), slice }
            }
        };
        Self { now: start, state }
    }

    /// Returns the current instant.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets the thread sleep until `until`, and then wait until it gets the CPU.
    pub fn sleep_until(&mut self, until: Instant) {
        self.now = self.now.max(until);
        match &mut self.state {
            State::Whole => {}
            State::Reserved { cbs, late } => {
                cbs.wake(self.now);
                if *late {
                    self.now = self.now.max(cbs.deadline() - cbs.left().at_full_speed());
                }
            }
            &mut State::Fair { round, slice } => self.wait_for_slice(round, slice),
        }
    }

    /// Runs the thread until it has received `service`.
    pub fn run(&mut self, mut service: Service) {
        match self.state {
            State::Whole => self.now += service.at_full_speed(),
            State::Reserved { .. } => self.run_reserved(service),
            State::Fair { round, slice } => {
                while !service.is_zero() {
                    self.wait_for_slice(round, slice);
                    let into_round = Duration::from_nanos(self.now.as_nanos()) % round;
                    let ran = service.min((round - into_round).as_full_service());
                    service -= ran;
                    self.now += ran.at_full_speed();
                }
            }
        }
    }

    fn run_reserved(&mut self, mut service: Service) {
        let State::Reserved { cbs, late } = &mut self.state else { return };
        loop {
            if *late {
                self.now = self.now.max(cbs.deadline() - cbs.left().at_full_speed());
            }
            let ran = service.min(cbs.left());
            service -= ran;
            self.now += ran.at_full_speed();
            let charge = cbs.charge(ran);
            if service.is_zero() {
                return;
            }
            if let Charge::Throttled { until } = charge {
                self.now = self.now.max(until);
                cbs.replenish();
            }
        }
    }

    /// Moves to the thread's slice in this round or the next. Its slice is the last of each round,
    /// because it woke when the others were ahead of it.
    fn wait_for_slice(&mut self, round: Duration, slice: Duration) {
        let into_round = Duration::from_nanos(self.now.as_nanos()) % round;
        self.now += (round - slice).saturating_sub(into_round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_reservation_stretches_work_over_its_periods() {
        let reservation = "2ms/8ms".parse().expect("valid");
        let mut cpu = Cpu::new(Supply::Reserved(reservation), ms(0));
        cpu.sleep_until(ms(0));
        cpu.run(Service::from_millis(2));
        assert_eq!(cpu.now(), ms(2));
        cpu.run(Service::from_millis(3));
        assert_eq!(cpu.now(), ms(17), "throttled until 8, again until 16");
    }

    #[test]
    fn the_latest_budget_comes_at_the_end_of_its_period() {
        let reservation = "2ms/8ms".parse().expect("valid");
        let mut cpu = Cpu::new(Supply::ReservedLate(reservation), ms(0));
        cpu.sleep_until(ms(0));
        assert_eq!(cpu.now(), ms(6));
        cpu.run(Service::from_millis(3));
        assert_eq!(cpu.now(), ms(15), "2 ms until 8, 1 ms from 14");
    }

    #[test]
    fn a_fair_share_is_one_slice_a_round() {
        let supply = Supply::Fair { competitors: 3, slice: Duration::from_millis(4) };
        let mut cpu = Cpu::new(supply, ms(0));
        cpu.sleep_until(ms(1));
        assert_eq!(cpu.now(), ms(12));
        cpu.run(Service::from_millis(6));
        assert_eq!(cpu.now(), ms(30), "4 ms until 16, 2 ms from 28");
    }

    #[test]
    fn the_whole_cpu_is_never_waited_for() {
        let mut cpu = Cpu::new(Supply::Whole, ms(0));
        cpu.sleep_until(ms(3));
        cpu.run(Service::from_millis(2));
        assert_eq!(cpu.now(), ms(5));
    }
}
