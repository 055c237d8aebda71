//! Selects the handler that makes packets next, with cooperative preemption.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use punctual_model::channel::Channel;
use punctual_model::{Duration, Instant, Rank};
use punctual_policy::queues::{Class, Full, ServiceOrder, ThreeQueues};

/// The handlers of a sending host: one for each channel, and some more for best effort. They are
/// numbered: channels as in the slice given, the most urgent first, then best effort.
///
/// A handler makes the packets of its messages in order. After P packets (real-time channels,
/// §3.1.1) and at the end of each message it yields, and [`next`](Self::next) decides again. Those
/// of best effort take turns: one that yields goes behind the others.
///
/// Call order: [`next`](Self::next), then [`made`](Self::made) after each packet until it yields;
/// [`arrive`](Self::arrive) at any time.
#[derive(Clone, Debug)]
pub struct Handlers<M> {
    order: ServiceOrder,
    packets_per_block: u32,
    handlers: Box<[Handler<M>]>,
    /// Each handler that has a message and does not run, by its first message.
    waiting: ThreeQueues<u32>,
    running: Option<Running>,
}

#[derive(Clone, Debug)]
struct Handler<M> {
    /// Its rank and delay bound, or `None` for best effort.
    channel: Option<(Rank, Duration)>,
    messages: VecDeque<(Instant, M)>,
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    handler: u32,
    left: u32,
}

/// The next activity of the processor.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This handler makes a packet of its first message.
    Run(u32),
    /// Nothing is to be made before `until`, unless something arrives ([`Instant::MAX`] means
    /// never).
    Idle {
        /// When the first early message becomes current.
        until: Instant,
    },
}

/// The next step of the handler after a packet.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldPoint<M> {
    /// It makes the next packet.
    Continue,
    /// It yields, and the message goes on later.
    Yield,
    /// It yields, because that was the message's last packet.
    Complete(M),
}

impl<M> Handlers<M> {
    /// Makes handlers of `channels`, the most urgent first, with room for this many waiting
    /// messages in each, and of `best_effort` more with room for one message.
    ///
    /// `packets_per_block` is P; a zero counts as one, because a handler must make progress.
    pub fn new(
        order: ServiceOrder,
        packets_per_block: u32,
        channels: &[Channel],
        room: usize,
        best_effort: u32,
    ) -> Self {
        let of_channels = channels.iter().zip(0..).map(|(channel, rank)| Handler {
            channel: Some((Rank(rank), channel.delay_bound())),
            messages: VecDeque::with_capacity(room),
            room,
        });
        let of_best_effort = (0..best_effort).map(|_| Handler {
            channel: None,
            messages: VecDeque::with_capacity(1),
            room: 1,
        });
        Self {
            order,
            packets_per_block: packets_per_block.max(1),
            handlers: of_channels.chain(of_best_effort).collect(),
            waiting: ThreeQueues::new(channels.len(), best_effort as usize),
            running: None,
        }
    }

    /// Adds a message for `handler`, to be served from `logical` on: for a channel its logical
    /// arrival, as its [`Shaper`](super::Shaper) returned it, never before that of the message
    /// before it.
    ///
    /// # Panics
    /// Panics if there is no such handler.
    pub fn arrive(
        &mut self,
        now: Instant,
        handler: u32,
        logical: Instant,
        message: M,
    ) -> Result<(), Full<M>> {
        let state = &mut self.handlers[handler as usize];
        if state.messages.len() >= state.room {
            return Err(Full(message));
        }
        let is_first = state.messages.is_empty();
        state.messages.push_back((logical, message));
        if is_first {
            self.wait(now, handler);
        }
        Ok(())
    }

    /// Returns the handler that runs, decided at `now`: at a yield, or when the processor is idle.
    pub fn next(&mut self, now: Instant) -> Next {
        debug_assert!(self.running.is_none(), "the running handler has not yielded");
        match self.waiting.pop(now) {
            Some(handler) => {
                self.running = Some(Running { handler, left: self.packets_per_block });
                Next::Run(handler)
            }
            None => Next::Idle { until: self.waiting.next_current().unwrap_or(Instant::MAX) },
        }
    }

    /// Returns the message whose packets `handler` makes.
    pub fn message_mut(&mut self, handler: u32) -> Option<&mut M> {
        self.handlers[handler as usize].messages.front_mut().map(|(_, message)| message)
    }

    /// Returns the class of a packet of `handler`'s first message on the link.
    pub fn class(&self, handler: u32) -> Class {
        let Handler { channel, messages, .. } = &self.handlers[handler as usize];
        match (channel, messages.front()) {
            (&Some((rank, delay_bound)), Some(&(logical, _))) => {
                Class::RealTime { logical, urgency: self.order.urgency(rank, delay_bound, logical) }
            }
            _ => Class::BestEffort,
        }
    }

    /// Records that the running handler has made a packet, at `now`; `is_last` of its message.
    pub fn made(&mut self, now: Instant, is_last: bool) -> YieldPoint<M> {
        let Some(running) = &mut self.running else {
            debug_assert!(false, "nobody runs");
            return YieldPoint::Yield;
        };
        let handler = running.handler;
        running.left -= 1;
        if running.left > 0 && !is_last {
            return YieldPoint::Continue;
        }
        self.running = None;
        let messages = &mut self.handlers[handler as usize].messages;
        let complete = if is_last { messages.pop_front() } else { None };
        if !messages.is_empty() {
            self.wait(now, handler);
        }
        match complete {
            Some((_, message)) => YieldPoint::Complete(message),
            None => YieldPoint::Yield,
        }
    }

    fn wait(&mut self, now: Instant, handler: u32) {
        let pushed = self.waiting.push(now, self.class(handler), handler);
        // A handler waits at most once, and there is a place for each.
        debug_assert!(pushed.is_ok(), "a handler waits twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use punctual_model::channel::LinearBounded;

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    fn channels(bounds: &[u64]) -> Vec<Channel> {
        let traffic = LinearBounded::fixed(1, Duration::from_nanos(10), 1).expect("valid");
        let channel = |&bound| Channel::new("a", &traffic.into(), Duration::from_nanos(bound));
        bounds.iter().map(|bound| channel(bound).expect("valid")).collect()
    }

    #[test]
    fn a_handler_is_preempted_only_where_it_yields() {
        let mut handlers = Handlers::new(ServiceOrder::Rank, 2, &channels(&[50, 90]), 4, 0);
        handlers.arrive(ns(0), 1, ns(0), 'b').expect("room");
        assert_eq!(handlers.next(ns(0)), Next::Run(1));
        handlers.arrive(ns(1), 0, ns(1), 'a').expect("room");
        assert_eq!(handlers.made(ns(2), false), YieldPoint::Continue);
        assert_eq!(handlers.made(ns(3), false), YieldPoint::Yield);
        assert_eq!(handlers.next(ns(3)), Next::Run(0));
        assert_eq!(handlers.made(ns(4), true), YieldPoint::Complete('a'));
        assert_eq!(handlers.next(ns(4)), Next::Run(1));
        assert_eq!(handlers.message_mut(1), Some(&mut 'b'));
        assert_eq!(handlers.made(ns(5), true), YieldPoint::Complete('b'));
        assert_eq!(handlers.next(ns(5)), Next::Idle { until: Instant::MAX });
    }

    #[test]
    fn ranks_and_deadlines_may_disagree() {
        for (order, first) in [(ServiceOrder::Rank, 0), (ServiceOrder::Deadline, 1)] {
            let mut handlers = Handlers::new(order, 1, &channels(&[50, 90]), 4, 0);
            handlers.arrive(ns(0), 1, ns(0), 'b').expect("room");
            handlers.arrive(ns(60), 0, ns(60), 'a').expect("room");
            assert_eq!(handlers.next(ns(60)), Next::Run(first));
        }
    }

    #[test]
    fn early_messages_wait_for_their_logical_arrival() {
        let mut handlers = Handlers::new(ServiceOrder::Rank, 1, &channels(&[50]), 2, 1);
        handlers.arrive(ns(0), 0, ns(7), 'a').expect("room");
        handlers.arrive(ns(0), 0, ns(17), 'b').expect("room");
        assert_eq!(handlers.arrive(ns(0), 0, ns(27), 'c'), Err(Full('c')));
        assert_eq!(handlers.next(ns(6)), Next::Idle { until: ns(7) });
        assert_eq!(handlers.next(ns(7)), Next::Run(0));
        assert_eq!(handlers.made(ns(8), true), YieldPoint::Complete('a'));
        // The next one is early: best effort goes first.
        handlers.arrive(ns(8), 1, ns(8), 'z').expect("room");
        assert_eq!(handlers.next(ns(8)), Next::Run(1));
        assert_eq!(handlers.class(1), Class::BestEffort);
    }

    #[test]
    fn best_effort_takes_turns() {
        let mut handlers = Handlers::new(ServiceOrder::Rank, 1, &[], 0, 2);
        for handler in [0, 1] {
            handlers.arrive(ns(0), handler, ns(0), handler).expect("room");
        }
        for turn in [0, 1, 0, 1] {
            assert_eq!(handlers.next(ns(0)), Next::Run(turn));
            assert_eq!(handlers.made(ns(0), false), YieldPoint::Yield);
        }
    }
}
