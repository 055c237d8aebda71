//! Messages to the dispatcher, and values that it no longer needs and gives back.
//!
//! The dispatcher could meet any lock in the hands of a thread that it has just stopped, the memory
//! allocator's among them. So it takes no lock, allocates nothing and frees nothing. A message lies
//! in a slot, only the slot's number goes through the queue, and a value that the dispatcher is
//! done with goes back in the same slot. A slot belongs to one side at a time, so its own lock is
//! always free.

use std::sync::{Arc, Mutex};

use punctual_ring::spsc::{self, Consumer, Producer};

/// The number of messages and values that the dispatcher can hold at a time.
pub(super) const SLOTS: usize = 256;

type Slots<T> = Arc<[Mutex<Option<T>>]>;

/// The dispatcher's right to give one value back.
#[derive(Debug)]
pub(super) struct Ticket(u32);

/// The senders' end.
pub(super) struct Outbox<T> {
    slots: Slots<T>,
    free: Vec<u32>,
    to: Producer<u32>,
    back: Consumer<u32>,
}

/// The dispatcher's end.
pub(super) struct Inbox<T> {
    slots: Slots<T>,
    from: Consumer<u32>,
    back: Producer<u32>,
}

pub(super) fn mailbox<T: Send>() -> (Outbox<T>, Inbox<T>) {
    let slots: Slots<T> = (0..SLOTS).map(|_| Mutex::new(None)).collect();
    let (to, from) = spsc::channel(SLOTS);
    let (give, back) = spsc::channel(SLOTS);
    let free = (0..SLOTS as u32).collect();
    let outbox = Outbox { slots: Arc::clone(&slots), free, to, back };
    (outbox, Inbox { slots, from, back: give })
}

impl<T> Outbox<T> {
    /// Sends `message`; the caller notifies. Frees the values that came back.
    ///
    /// # Errors
    /// Returns the message if the dispatcher holds as many values as it can.
    pub(super) fn send(&mut self, message: T) -> Result<(), T> {
        self.collect();
        let Some(at) = self.free.pop() else { return Err(message) };
        // The slot is ours while its number is in `free`: the dispatcher does not look at it.
        match self.slots[at as usize].try_lock() {
            Ok(mut slot) => *slot = Some(message),
            Err(_) => return Err(message),
        }
        // The queue has as many places as there are slots.
        self.to.push(at);
        Ok(())
    }

    fn collect(&mut self) {
        while let Some(at) = self.back.pop() {
            if let Ok(mut slot) = self.slots[at as usize].try_lock() {
                drop(slot.take());
            }
            self.free.push(at);
        }
    }
}

impl<T> Inbox<T> {
    /// Takes out the next message, and the right to give one value back for it.
    pub(super) fn take(&mut self) -> Option<(Ticket, T)> {
        let at = self.from.pop()?;
        let message = self.slots[at as usize].try_lock().ok()?.take()?;
        Some((Ticket(at), message))
    }

    /// Uses up the ticket; `thing` is freed on the other side.
    pub(super) fn give_back(&mut self, ticket: Ticket, thing: Option<T>) {
        if let Ok(mut slot) = self.slots[ticket.0 as usize].try_lock() {
            *slot = thing;
        }
        self.back.push(ticket.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_and_a_full_box_says_so() {
        let (mut outbox, mut inbox) = mailbox::<Arc<u32>>();
        let thing = Arc::new(7);
        let mut tickets = Vec::new();
        for _ in 0..3 {
            for _ in 0..SLOTS {
                outbox.send(Arc::clone(&thing)).expect("room");
            }
            assert!(outbox.send(Arc::clone(&thing)).is_err());
            while let Some((ticket, message)) = inbox.take() {
                tickets.push((ticket, message));
            }
            for (ticket, message) in tickets.drain(..) {
                inbox.give_back(ticket, Some(message));
            }
        }
        outbox.collect();
        assert_eq!(Arc::strong_count(&thing), 1, "freed on this side");
    }
}
