//! Probes of queueing disciplines, on the loopback of a namespace of their own.

use punctual_model::time::Duration;

use super::{Attempt, Loop, Seen};
use crate::clock;
use crate::net::interface::Interface;
use crate::net::route::{self, Discipline, DisciplineError};

/// The rate in bytes a second: a datagram of 1,000 bytes with headers takes a millisecond.
const RATE: u64 = 1_000_000;
const BURST: u32 = 2_000;
const DATAGRAMS: usize = 30;
/// 1,000 bytes less the headers of UDP, IP and Ethernet.
const PAYLOAD: usize = 958;
/// The least time that shaping to [`RATE`] takes: the burst, one more datagram, and a tenth for
/// rounding may go early.
const LEAST: Duration = Duration::from_millis(24);

pub(super) fn tbf() -> Attempt {
    shapes(Discipline::Tbf { rate: RATE, burst_bytes: BURST, limit_bytes: 1 << 20 })
}

pub(super) fn htb() -> Attempt {
    shapes(Discipline::Htb { rate: RATE, burst_bytes: BURST })
}

/// Sends more than the burst, and measures how long it takes to arrive.
fn shapes(discipline: Discipline) -> Attempt {
    let _set = Set::on_loopback(discipline)?;
    let mut wire = Loop::open()?;
    let start = clock::now();
    for _ in 0..DATAGRAMS {
        wire.send(&[0; PAYLOAD])?;
    }
    let got = wire.receive(DATAGRAMS, Duration::from_millis(250))?.len();
    let took = clock::now().saturating_since(start);
    let seen = format!("{got} of {DATAGRAMS} kB in {} ms at 1 MB/s", took.as_nanos() / 1_000_000);
    Ok(if got == DATAGRAMS && took >= LEAST { Seen::Works(seen) } else { Seen::Ignored(seen) })
}

/// A discipline of the loopback, until it is dropped.
pub(super) struct Set {
    index: u32,
}

impl Set {
    pub(super) fn on_loopback(discipline: Discipline) -> Result<Self, DisciplineError> {
        let index = Interface::named("lo").map_or(1, |lo| lo.index);
        route::set_discipline(index, discipline)?;
        Ok(Self { index })
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // The namespace is about to end, so an error does not matter.
        let _ = route::remove_discipline(self.index);
    }
}
