//! The threads that carry messages: one sends; one receives for channels with a promise, and another
//! for best effort.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;

use punctual_bpf::Policer;
use punctual_channel::server::events::Events;
use punctual_channel::server::orders::{Desk, desk_and_post};
use punctual_channel::server::receiver::thread::{Order, Report};
use punctual_channel::server::receiver::{self, Receiver};
use punctual_channel::server::sender::thread::{SenderThread, Setup};
use punctual_channel::transport::{NullDevice, Udp, Wire};
use punctual_linux::net::probe;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::{self, Tid};
use punctual_model::Duration;
use punctual_policy::queues::ServiceOrder;
use tracing::{info, warn};

use super::traced::TraceSenders;
use crate::config::{ChannelsConfig, WireKind};

/// The priority of the thread that receives for channels with a promise: above the guard, which is
/// above everything that is granted.
const RECEIVER: u8 = crate::guard::PRIORITY + 1;

/// The priority of the sending thread. Packets that strangers send to this host, which only
/// receiving polices, cannot delay it.
const SENDER: u8 = RECEIVER + 1;

/// The queue of the emulated link, in time: as little as a driver of one packet.
const NULL_QUEUE: Duration = Duration::from_micros(100);

/// The largest packet of the emulated link.
const NULL_MTU: u32 = 65_535;

/// The most orders that wait.
const ORDERS: usize = 1_024;

/// The threads.
#[derive(Debug)]
pub(super) struct Carriers {
    pub(super) sender: SenderThread,
    pub(super) receiver: ReceiverThread,
    /// Receives best effort. It is an ordinary thread, so that best effort takes nothing from what
    /// was admitted.
    pub(super) best_effort: ReceiverThread,
}

impl Carriers {
    /// Starts them. Those that carry messages with a promise have precedence over everything that may
    /// be promised except reservations.
    pub(super) fn start(
        config: &ChannelsConfig,
        policer: Option<Policer>,
        senders: Option<TraceSenders>,
    ) -> io::Result<Self> {
        let TraceSenders { sender: sent, receiver: received, best_effort: unpromised } =
            senders.unwrap_or_default();
        let wire = match config.wire {
            WireKind::Null => {
                let link = config.reckoned_link();
                Wire::Null(NullDevice::new(link, NULL_MTU, NULL_QUEUE, ()))
            }
            WireKind::Udp => {
                let trains = probe::trains();
                if !trains.works() {
                    warn!(seen = ?trains.seen, "no trains of datagrams: a system call each");
                }
                Wire::Udp(Udp::new(config.room, trains.works()))
            }
        };
        let sender = SenderThread::start(Setup {
            link: config.reckoned_link(),
            cut: config.cut,
            order: ServiceOrder::Deadline,
            pace: config.egress().pace().unwrap_or(Duration::ZERO),
            room: config.room,
            wire,
            events: sent,
        })?;
        let receiver = ReceiverThread::start("receiver", config, None, received)?;
        let best_effort = ReceiverThread::start("best-effort", config, policer, unpromised)?;
        // It must not inherit a class of this thread.
        sched::set(best_effort.tid, Class::Other { nice: 0 })
            .map_err(|why| io::Error::other(explain("best-effort receiver", &why)))?;
        for (tid, what, priority) in
            [(sender.tid(), "sender", SENDER), (receiver.tid, "receiver", RECEIVER)]
        {
            match sched::set(tid, Class::Fifo { priority }) {
                Ok(()) => info!(what, priority, "channels' thread"),
                // Promises cannot be kept then, so none is made.
                Err(why) => return Err(io::Error::other(explain(what, &why))),
            }
        }
        Ok(Self { sender, receiver, best_effort })
    }

    /// Returns whether a thread has ended, although none ever should.
    pub(super) fn has_lost_one(&self) -> bool {
        self.sender.has_ended() || self.receiver.has_ended() || self.best_effort.has_ended()
    }

    /// Returns the thread that receives for a channel with this promise.
    pub(super) fn receiver_of(&mut self, delay_bound: Option<Duration>) -> &mut ReceiverThread {
        if delay_bound.is_some() { &mut self.receiver } else { &mut self.best_effort }
    }

    /// Returns the next report of a receiving thread.
    pub(super) fn received(&mut self) -> Option<Report> {
        self.receiver.report().or_else(|| self.best_effort.report())
    }
}

fn explain(what: &str, why: &SchedError) -> String {
    format!("the channels' {what} cannot have its scheduling class: {why}")
}

/// A receiving thread. Dropping this ends the thread.
#[derive(Debug)]
pub(super) struct ReceiverThread {
    desk: Option<Desk<Order, Report>>,
    tid: Tid,
    thread: Option<JoinHandle<()>>,
}

impl ReceiverThread {
    fn start(
        name: &'static str,
        config: &ChannelsConfig,
        policer: Option<Policer>,
        events: Option<Events>,
    ) -> io::Result<Self> {
        let (desk, post) = desk_and_post(ORDERS, 2 * config.room as usize + ORDERS)?;
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            thread::set_timer_slack(Duration::from_nanos(1));
            let mut receiver = match Receiver::new() {
                Ok(receiver) => receiver,
                Err(errno) => {
                    let _ = tell.send(Err(errno));
                    return;
                }
            };
            if let Some(policer) = policer {
                receiver.police_by(Box::new(policer));
            }
            if let Some(events) = events {
                receiver.tell_events(events);
            }
            let _ = tell.send(Ok(thread::current()));
            if let Err(errno) = receiver::thread::run(receiver, post) {
                tracing::error!(%errno, name, "a thread that receives for channels has ended");
            }
        })?;
        let tid = told.recv().map_err(|_| io::Error::other("the receiver did not start"))??;
        Ok(Self { desk: Some(desk), tid, thread: Some(thread) })
    }

    /// Returns whether it has ended, which it does only when it panics or cannot wait.
    fn has_ended(&self) -> bool {
        self.desk.as_ref().is_none_or(Desk::is_abandoned)
    }

    /// Gives an order; returns `false` if the thread does not keep up.
    pub(super) fn order(&mut self, order: Order) -> bool {
        self.desk.as_mut().is_some_and(|desk| desk.order(order).is_ok())
    }

    fn report(&mut self) -> Option<Report> {
        self.desk.as_mut()?.report()
    }
}

impl AsFd for ReceiverThread {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.desk.as_ref().expect("until it is dropped").as_fd()
    }
}

impl Drop for ReceiverThread {
    fn drop(&mut self) {
        drop(self.desk.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
