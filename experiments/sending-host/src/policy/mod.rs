//! Sends messages of real-time channels and of best effort (real-time channels, §2 and §3).
//!
//! The parts, each a state machine of its own, in the order in which a message meets them:
//!
//! - [`Shaper`]: the regulator of a channel. It gives each message its logical arrival and refuses
//!   messages for which there is no room.
//! - [`Handlers`]: selects the handler that makes packets next. Early messages wait; a handler
//!   yields after P packets.
//! - [`LinkScheduler`]: selects the packet that leaves next, and the time of the decision: in the
//!   running handler and the completion interrupt (O1), or in a thread that runs when a handler
//!   yields (O2).
//! - [`ThreeQueues`](punctual_policy::queues::ThreeQueues): the order under both: current, best
//!   effort, early.
//!
//! # What a driver does
//! When a message comes: [`Shaper::arrive`], then [`Handlers::arrive`]. Whenever the processor has
//! nothing to go on with: [`LinkScheduler::pick`] at [`Point::Yield`], else [`Handlers::next`].
//! After each packet: [`LinkScheduler::ready`], [`LinkScheduler::pick`] at [`Point::PacketMade`],
//! [`Handlers::made`]. When a packet has left: [`LinkScheduler::completed`], then `pick` at
//! [`Point::Completed`]; after a message's last packet, [`Shaper::sent`].
//!
//! All room is allocated when a part is made; nothing is allocated later.

mod handlers;
mod scheduler;
mod shaper;

pub use handlers::{Handlers, Next, YieldPoint};
pub use scheduler::{LinkScheduler, Point};
pub use shaper::{Arrival, Shaper};
