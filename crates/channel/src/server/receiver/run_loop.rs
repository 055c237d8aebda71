//! Decides which channel is served when, and does the work beside it.

use std::cmp::Reverse;

use punctual_model::channel::Framing;
use punctual_model::{Duration, Instant};
use punctual_policy::ingress::Urgency;
use punctual_trace::Kind;

use super::channel::{Channel, Clocks, Next};
use super::error::Ended;
use super::watch::{Report, Reporting, Watch};
use super::{Receiver, Seat, datagrams, fragments};

/// The interval at which an active channel is tended: losses are counted, incomplete messages given
/// up, and the filter of best effort set.
const TENDING: Duration = Duration::from_millis(100);

/// The number of channels that are tended in one go.
const TENDED_AT_A_GO: usize = 16;

/// The outcome of a turn.
#[must_use]
#[derive(Debug)]
pub enum Turn {
    /// A channel had its turn: call again.
    Served(u64),
    /// A channel ended by itself and is closed. It is given back so that it is destroyed elsewhere.
    /// Call again.
    Ended(u64, Box<Channel>, Ended),
    /// There is nothing to do until something comes, or until this instant.
    Idle(Option<Instant>),
}

impl Receiver {
    /// Waits until something comes, or until the instant. Returns whether the descriptor given to
    /// [`wake_for`](Self::wake_for) is readable. Reads `clock` once it has waited.
    pub fn wait(&mut self, until: Instant, clock: impl Fn() -> Instant) -> bool {
        let mut reports = std::mem::take(&mut self.reports);
        self.watch.wait(until, &mut reports);
        let now = clock();
        let mut ordered = false;
        for report in reports.drain(..) {
            match report {
                Report::Readable(seat) => self.readable(now, seat),
                Report::Ordered => ordered = true,
            }
        }
        self.reports = reports;
        ordered
    }

    /// Does the most urgent thing at `now`, which never goes back.
    pub fn turn(&mut self, now: Instant) -> Turn {
        self.tend(now);
        self.end_pauses(now);
        while let Some(seat) = self.order.next_turn() {
            // A channel that was closed meanwhile is skipped.
            if let Some(turn) = self.serve(now, seat) {
                return turn;
            }
        }
        let next = [&self.tending, &self.pauses];
        let next = next.iter().filter_map(|heap| heap.peek().map(|Reverse((at, _))| *at));
        Turn::Idle(next.min())
    }

    fn channel(&mut self, seat: Seat) -> Option<&mut Channel> {
        let place = self.places.get_mut(seat.at as usize)?;
        place.channel.as_deref_mut().filter(|_| place.generation == seat.generation)
    }

    /// Notes the kernel's report that a socket has something.
    fn readable(&mut self, now: Instant, seat: Seat) {
        let Some(channel) = self.channel(seat) else { return };
        if channel.reporting == Reporting::Once {
            channel.reporting = Reporting::Never;
        }
        self.came(now, seat);
    }

    /// Queues a channel that may have something.
    pub(super) fn came(&mut self, now: Instant, seat: Seat) {
        let Some(channel) = self.channel(seat) else { return };
        if channel.queued || channel.paused {
            return;
        }
        let tended = std::mem::replace(&mut channel.tended, true);
        match channel.most(now) {
            Ok(_) => {
                channel.queued = true;
                let urgency = channel.urgency(now);
                self.order.add(seat, urgency);
            }
            Err(again) => self.pause(seat, again),
        }
        if !tended {
            self.tending.push(Reverse((now.saturating_add(TENDING), seat)));
        }
    }

    /// Leaves a channel alone until that instant: its socket reports nothing meanwhile.
    fn pause(&mut self, seat: Seat, until: Instant) {
        let Some(channel) = self.places[seat.at as usize].channel.as_deref_mut() else { return };
        channel.paused = true;
        self.pauses.push(Reverse((until, seat)));
        report_by(&self.watch, seat, channel, Reporting::Never);
    }

    /// Queues the channels whose pauses are over.
    fn end_pauses(&mut self, now: Instant) {
        while self.pauses.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, seat))) = self.pauses.pop() else { return };
            let Some(channel) = self.channel(seat) else { continue };
            channel.paused = false;
            self.came(now, seat);
        }
    }

    /// Serves a channel that waited for its turn, or returns `None` if the channel is closed.
    fn serve(&mut self, now: Instant, seat: Seat) -> Option<Turn> {
        let clocks = Clocks { now, wall: self.wall };
        let place = self.places.get_mut(seat.at as usize)?;
        let channel = place.channel.as_deref_mut()?;
        if place.generation != seat.generation {
            return None;
        }
        channel.queued = false;
        // It was queued when it might read one.
        let most = channel.most(now).unwrap_or(1);
        let served = match channel.opening.terms.framing {
            Framing::Datagram => datagrams::serve(channel, &clocks, most),
            Framing::Fragments => fragments::serve(channel, &clocks, most, &mut self.inbox),
        };
        let id = channel.id;
        // The number's lower half identifies as many channels as were ever granted.
        let task = id as u32;
        for (index, release) in channel.of_this_turn() {
            if let Some(events) = &mut self.events {
                events.record(now, (task, index), release, Kind::Complete);
            }
        }
        if let Some(ended) = served.ended {
            return Some(Turn::Ended(id, self.close(now, id)?, ended));
        }
        let next = channel.after(now, &served);
        // A channel that waits for more than its turn is not reported; one that rests is.
        let reporting = match next {
            Next::Turn(Urgency::By(_)) | Next::Rest => channel.opening.reporting(),
            Next::Turn(Urgency::Later) | Next::Pause(_) => Reporting::Never,
        };
        report_by(&self.watch, seat, channel, reporting);
        match next {
            Next::Turn(urgency) => {
                channel.queued = true;
                self.order.add(seat, urgency);
            }
            Next::Pause(until) => {
                channel.paused = true;
                self.pauses.push(Reverse((until, seat)));
            }
            Next::Rest => {}
        }
        Some(Turn::Served(id))
    }

    /// Tends the active channels that are due.
    fn tend(&mut self, now: Instant) {
        for _ in 0..TENDED_AT_A_GO {
            let due = self.tending.peek().is_some_and(|Reverse((at, _))| *at <= now);
            let Some(Reverse((_, seat))) = due.then(|| self.tending.pop()).flatten() else {
                return;
            };
            let Some(place) = self.places.get_mut(seat.at as usize) else { continue };
            let Some(channel) = place.channel.as_deref_mut() else { continue };
            if place.generation != seat.generation {
                continue;
            }
            channel.tended = channel.tend(now, self.policer.as_deref());
            if channel.tended {
                self.tending.push(Reverse((now.saturating_add(TENDING), seat)));
            }
        }
    }
}

/// Changes how the socket of a channel reports that something came.
fn report_by(watch: &Watch, seat: Seat, channel: &mut Channel, reporting: Reporting) {
    if reporting != channel.reporting {
        channel.reporting = reporting;
        watch.set(seat, &channel.opening.socket, reporting);
    }
}
