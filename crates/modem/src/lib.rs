//! A soft modem as a real-time workload: card, line, modem, and the driver of a bank of them.
//!
//! The parts of the soft modem study (Rialto/NT, §3), each as real as a machine without a telephone
//! line allows:
//!
//! - [`card`]: 8000 samples a second each way through rings of 512. Its position follows from the
//!   clock alone, so a late driver loses samples, in virtual time as well as live.
//! - [`mod@line`]: loss and noise, and a second real modem at the far end.
//! - [`modem`]: V.22bis at 2400 bit/s full duplex from SpanDSP, moving HDLC frames.
//! - [`lapm`]: V.42 error correction, and [`v42bis`] compression over it; [`uart`]: characters
//!   without either.
//! - [`rtp`]: a line over UDP: G.711 audio in RTP.
//! - [`supervision`]: bad signal leads to a retrain, and then to NO CARRIER.
//! - [`station`]: all of these as one modem, over [`pump`]; [`exchange`]: several of them on one
//!   host; [`trunk`]: one, with the far one on another host.
//! - [`impair`]: noise, loss, echo, drift and gaps, around any line.
//! - [`fsk`]: V.21 in integers, for a thread, a softirq and a hard interrupt alike.
//! - [`transfer`]: the frames, a file sent in them, and how much of it arrived intact.
//! - [`at`]: the commands and result codes of a Hayes modem, as its terminal sees it.
//! - [`bank`]: the driver. It is a `punctual_model::Handler`: one line's service is one PDU.
//!
//! Everything is a function of the seed and of the instants passed in: no clock is read, and the
//! same driver runs in virtual time and live. It is pure except for the C library, which keeps no
//! state outside the objects that [`modem`] owns.
//!
//! The program of this package, `punctual-modem`, and `demo`, which it runs, are front ends: there
//! the driver meets the runtime and the simulator. They belong to the feature `cli`, which is on by
//! default. Nothing else here depends on them or on their dependencies.

pub mod at;
pub mod bank;
pub mod card;
#[cfg(feature = "cli")]
pub mod demo;
pub mod exchange;
mod ffi;
pub mod fsk;
pub mod impair;
pub mod lapm;
pub mod line;
pub mod modem;
pub mod pump;
pub mod rtp;
pub mod station;
pub mod supervision;
pub mod transfer;
pub mod trunk;
pub mod uart;
pub mod v42bis;

pub use bank::{Bank, BankConfig, BankError, BankStats, LineStats};
pub use card::{Card, CardStats, PERIOD, SAMPLE_RATE, SAMPLES_PER_PERIOD};
pub use line::LineQuality;
