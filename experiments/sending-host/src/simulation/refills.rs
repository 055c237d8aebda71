//! The best-effort senders' own view: when each brings its next message.

use alloc::vec::Vec;

use punctual_model::Instant;
use punctual_model::channel::Packetisation;

use super::sources::Backlog;

/// All best-effort senders, and the times of their next messages. They are numbered as their
/// backlogs.
pub(super) struct Refills {
    states: Vec<State>,
    next: Instant,
}

#[derive(Clone, Copy, Debug)]
struct State {
    backlog: Backlog,
    /// The packets of each of its messages.
    packets: u32,
    inside: u32,
    /// When the next message comes, if there is room then; never while one is being made.
    next: Instant,
}

impl Refills {
    pub(super) fn new(backlogs: &[Backlog], cut: Packetisation) -> Self {
        let state = |backlog: &Backlog| {
            let packets = cut.packets_of(backlog.bytes);
            State { backlog: *backlog, packets, inside: 0, next: backlog.first }
        };
        let mut refills = Self { states: backlogs.iter().map(state).collect(), next: Instant::MAX };
        refills.find_next();
        refills
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns how many packets may be inside.
    pub(super) fn room(&self) -> usize {
        self.states.iter().map(|state| state.backlog.room as usize).sum()
    }

    /// Returns when the next message comes, if no packet leaves before.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Returns a message that has come by `now`: its sender and its bytes. Each is returned once:
    /// call until `None`.
    pub(super) fn take(&mut self, now: Instant) -> Option<(usize, u32)> {
        let at = self.states.iter().position(|state| state.next <= now && state.has_room())?;
        let state = &mut self.states[at];
        state.next = Instant::MAX;
        state.inside += state.packets;
        let bytes = state.backlog.bytes;
        self.find_next();
        Some((at, bytes))
    }

    /// Records that the last packet of the sender's message was made at `now`.
    pub(super) fn made(&mut self, sender: usize, now: Instant) {
        let state = &mut self.states[sender];
        state.next = now.saturating_add(state.backlog.pause);
        self.find_next();
    }

    /// Records that a packet of the sender has left.
    pub(super) fn left(&mut self, sender: usize) {
        self.states[sender].inside -= 1;
        self.find_next();
    }

    fn find_next(&mut self) {
        let due = self.states.iter().filter(|state| state.has_room());
        self.next = due.map(|state| state.next).fold(Instant::MAX, Instant::min);
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.inside + self.packets <= self.backlog.room
    }
}
