//! The thread that follows one CPU's timetable.
//!
//! It runs on that CPU above every owner that it dispatches. So when the timer of a slot's end
//! fires, it preempts the owner in any case. While the dispatcher works, no owner of its CPU runs,
//! so none can outrun freezing and lowering. [`TableDispatcher`] decides; this thread only carries
//! the decisions out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_analysis::supply::MOST_OWNERS;
use punctual_linux::clock;
use punctual_linux::park::EventCount;
use punctual_linux::process::Guard;
use punctual_model::{Instant, Reservation, Service};
use punctual_policy::table_dispatcher::{Holder, Pending, TableDispatcher};
use punctual_policy::timetable::Turns;
use punctual_ring::spsc::Producer;
use punctual_trace::constraint::Given;
use punctual_trace::slots::Slots;
use punctual_trace::{Event, Sink};

use super::mailbox::{Inbox, Ticket};
use super::owner::Owner;

/// A message to the dispatcher, or a value that it gives back.
pub(super) enum Message {
    /// Adds an owner.
    Join { name: u32, owner: Arc<Owner>, slots: Option<Slots> },
    /// Gives an owner another budget and period from that instant on.
    Change { name: u32, asked: Reservation, from: Instant },
    /// Releases an owner at once.
    Leave { name: u32 },
    /// Follows another table.
    Follow { from: Instant, turns: Option<Turns> },
    /// Adds an accepted time constraint.
    Once { pending: Pending, owner: Arc<Owner>, left: Arc<AtomicU64>, given: Option<Given> },
    /// Ends a time constraint that was done or given up at that instant.
    EndOnce { name: u32, at: Instant },
    /// Ends the thread.
    Stop,
}

/// A thread or group that may be given the CPU.
struct Known {
    name: u32,
    owner: Arc<Owner>,
    /// The time left to a time constraint, for admission.
    left: Option<Arc<AtomicU64>>,
    /// For an owner: the reporter of its slots.
    slots: Option<Slots>,
    /// For a time constraint: the reporter of the time it is given.
    given: Option<Given>,
    ticket: Ticket,
}

/// The thread's state.
pub(super) struct Dispatcher {
    cpu: usize,
    table_dispatcher: TableDispatcher,
    inbox: Inbox<Message>,
    changed: Arc<EventCount>,
    guard: Arc<Guard>,
    owners: Vec<Known>,
    once: Vec<Known>,
    /// One for each table in `table_dispatcher`.
    tables: Vec<Ticket>,
    /// The one that has the CPU.
    current: Holder,
    /// The last value of [`Guard::acted`].
    acted: u32,
    buffer: Box<[u8]>,
    events: Events,
}

/// The queue for events, if they are wanted.
struct Events(Option<Producer<Event>>);

impl Sink for Events {
    fn record(&mut self, event: Event) {
        if let Some(to) = &mut self.0 {
            // A full ring counts the loss: the timetable goes first.
            to.push(event);
        }
    }
}

/// The largest number of owners, and of time constraints, of one CPU.
pub(super) const MOST: usize = MOST_OWNERS;

impl Dispatcher {
    pub(super) fn new(
        cpu: usize,
        context_switch: Service,
        inbox: Inbox<Message>,
        changed: Arc<EventCount>,
        guard: Arc<Guard>,
        events: Option<Producer<Event>>,
    ) -> Self {
        Self {
            cpu,
            table_dispatcher: TableDispatcher::new(context_switch),
            inbox,
            changed,
            acted: guard.acted(),
            guard,
            owners: Vec::with_capacity(MOST),
            once: Vec::with_capacity(MOST),
            tables: Vec::with_capacity(TableDispatcher::MOST_NEXT + 1),
            current: Holder::Free,
            // Filled with ones so that its pages exist: pages of zeroes are only allocated at the
            // first touch.
            buffer: vec![1; 1 << 16].into_boxed_slice(),
            events: Events(events),
        }
    }

    /// Runs the thread until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            // Read before the messages, so that the sleep does not miss a later one.
            let seen = self.changed.count();
            while let Some((ticket, message)) = self.inbox.take() {
                if self.take(ticket, message) {
                    self.switch_to(Holder::Free);
                    self.guard.due(self.cpu, Instant::MAX);
                    return;
                }
            }
            let step = self.table_dispatcher.at(clock::now());
            // Checked before a slot is given during which the guard has released another owner.
            let acted = self.guard.acted();
            if acted != self.acted {
                self.acted = acted;
                self.take_back();
            }
            self.switch_to(step.who);
            for known in &self.once {
                let pending =
                    self.table_dispatcher.pending().iter().find(|one| one.name == known.name);
                if let Some(left) = &known.left {
                    let left_now = pending.map_or(Service::ZERO, |one| one.left);
                    left.store(left_now.as_nanos(), Ordering::Relaxed);
                }
            }
            while let Some(turns) = self.table_dispatcher.retired() {
                let thing = Message::Follow { from: Instant::ZERO, turns: Some(turns) };
                if let Some(ticket) = self.tables.pop() {
                    self.inbox.give_back(ticket, Some(thing));
                }
            }
            let idle = self.owners.is_empty() && self.once.is_empty();
            self.guard.due(self.cpu, if idle { Instant::MAX } else { step.until });
            self.changed.sleep_until(seen, step.until);
        }
    }

    /// Freezes and raises the hard owners once more, after this dispatcher or that of another CPU
    /// was stopped and the guard has released all owners.
    fn take_back(&mut self) {
        self.switch_to(Holder::Free);
        for known in &self.owners {
            known.owner.join(&mut self.buffer);
        }
    }

    /// Handles a message; returns true if it is to end.
    fn take(&mut self, ticket: Ticket, message: Message) -> bool {
        match message {
            Message::Join { name, owner, slots } => {
                owner.join(&mut self.buffer);
                self.owners.push(Known { name, owner, left: None, slots, given: None, ticket });
                return false;
            }
            Message::Change { name, asked, from } => {
                let known = self.owners.iter_mut().find(|known| known.name == name);
                if let Some(slots) = known.and_then(|known| known.slots.as_mut()) {
                    slots.change(asked, from);
                }
            }
            Message::Leave { name } => {
                if self.current == Holder::Owner(name) {
                    self.switch_to(Holder::Free);
                }
                if let Some(at) = self.owners.iter().position(|known| known.name == name) {
                    let known = self.owners.swap_remove(at);
                    self.let_go(known, None);
                }
            }
            Message::Follow { from, turns } => {
                let carries = turns.is_some();
                // The sender waits until there is room.
                if self.table_dispatcher.hand_over(from, turns).is_ok() && carries {
                    self.tables.push(ticket);
                    return false;
                }
            }
            Message::Once { pending, owner, left, given } => {
                if self.table_dispatcher.add(pending).is_ok() {
                    self.once.push(Known {
                        name: pending.name,
                        owner,
                        left: Some(left),
                        slots: None,
                        given,
                        ticket,
                    });
                    return false;
                }
            }
            Message::EndOnce { name, at } => {
                let left = self.table_dispatcher.end(name, clock::now());
                let known = self.once.iter_mut().find(|known| known.name == name);
                if let Some(given) = known.and_then(|known| known.given.as_mut()) {
                    given.done(at, &mut self.events);
                }
                if self.current == Holder::Constraint(name) {
                    self.switch_to(Holder::Free);
                }
                if let Some(at) = self.once.iter().position(|known| known.name == name) {
                    let known = self.once.swap_remove(at);
                    self.let_go(known, left);
                }
            }
            Message::Stop => return true,
        }
        self.inbox.give_back(ticket, None);
        false
    }

    fn let_go(&mut self, mut known: Known, left: Option<Service>) {
        if let (Some(slots), true) = (&mut known.slots, self.events.0.is_some()) {
            slots.close(clock::now(), &mut self.events);
        }
        known.owner.leave(&mut self.buffer);
        if let (Some(to), Some(left)) = (&known.left, left) {
            to.store(left.as_nanos(), Ordering::Relaxed);
        }
        let Known { name, owner, ticket, .. } = known;
        owner.gone.notify();
        self.inbox.give_back(ticket, Some(Message::Join { name, owner, slots: None }));
    }

    fn switch_to(&mut self, who: Holder) {
        if who == self.current {
            return;
        }
        self.tell(self.current, false);
        if let Some(owner) = find(&self.owners, &self.once, self.current) {
            owner.stop(&mut self.buffer);
        }
        // An owner that left, or has not joined yet, leaves its slot free for other threads.
        if let Some(owner) = find(&self.owners, &self.once, who) {
            owner.start(&mut self.buffer);
        }
        self.tell(who, true);
        self.current = who;
    }

    /// Reports that a slot begins or ends. An owner's slot begins when the owner has been started,
    /// and ends before it is stopped.
    fn tell(&mut self, who: Holder, begins: bool) {
        if self.events.0.is_none() {
            return;
        }
        let (among, name) = match who {
            Holder::Free => return,
            Holder::Owner(name) => (&mut self.owners, name),
            Holder::Constraint(name) => (&mut self.once, name),
        };
        let Some(known) = among.iter_mut().find(|known| known.name == name) else { return };
        let (now, to) = (clock::now(), &mut self.events);
        match (&mut known.slots, &mut known.given, begins) {
            (Some(slots), _, true) => slots.begins(now, to),
            (Some(slots), _, false) => slots.ends(now, to),
            (_, Some(given), true) => given.begins(now, to),
            (_, Some(given), false) => given.ends(now, to),
            (None, None, _) => {}
        }
    }
}

fn find<'a>(owners: &'a [Known], once: &'a [Known], who: Holder) -> Option<&'a Owner> {
    let (among, name) = match who {
        Holder::Free => return None,
        Holder::Owner(name) => (owners, name),
        Holder::Constraint(name) => (once, name),
    };
    among.iter().find(|known| known.name == name).map(|known| &*known.owner)
}
