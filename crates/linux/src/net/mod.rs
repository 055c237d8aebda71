//! UDP as the communication server needs it: trains, batches, stamps, drop counts, typed faults,
//! and early discard.
//!
//! ```text
//! UdpSocket ── send, send_batch ──> Outgoing (Places: slices or shared memory; trains)
//!     │ ├───── receive ───────────> Inbox / Rooms, one Arrival each (stamp, drops, train)
//!     │ ├───── take_notice ───────> Fault (MTU, unreachable, …) or SentStamp
//!     │ └───── attach ────────────> filter::Filter: discards before a datagram costs much
//!     │                             early::EarlyPolicer: the same before the kernel's stack
//!     └ interface, watch: links, addresses, their changes;  namespace: networks for experiments
//! probe: features of the kernel that work on this host
//! ```
//!
//! A socket has one family, waits only in the calls that say so, and never lets the kernel
//! fragment. An option that the kernel accepts and may ignore (departure times without a queueing
//! discipline that supports them) can be set only with the evidence of a [`probe`].

mod address;
mod control;
pub mod early;
mod error;
pub mod filter;
pub mod interface;
mod memory;
pub mod namespace;
mod notice;
mod options;
pub mod probe;
mod raw;
mod receive;
pub mod route;
mod send;
mod socket;
mod stamps;
pub mod watch;
mod xdp;

pub use error::{OpenError, OptionError, ReceiveError, SendError};
pub use memory::{Place, Room};
pub use notice::{Fault, FaultKind, Notice, SentStamp, StampPlace};
pub use options::PathMtu;
pub use receive::{Arrival, Datagram, Inbox};
pub use send::{LARGEST_BATCH, LARGEST_PAYLOAD, LONGEST_TRAIN, Outgoing};
pub use socket::{Readiness, Setup, UdpSocket};
pub use stamps::{Stamps, WallOffset, WallStamp};
