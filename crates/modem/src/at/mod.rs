//! A Hayes modem as its terminal sees it: commands in, result codes out (ITU-T V.250).
//!
//! Pure: [`Interpreter`] takes the terminal's bytes and the line's events, each with the instant at
//! which it came, and gives bytes for the terminal and [`Order`]s for the line. It reads no clock
//! and knows neither samples nor ttys.
//!
//! | state | bytes from the terminal are | left by |
//! |---|---|---|
//! | commands, no call | command lines | `D`, `A`, a ring that S0 answers |
//! | connecting | an abort (§5.6.1), from 125 ms after the command on | CONNECT, a failure, S7 |
//! | online | data, and watched for the [`escape`] | the escape, DTR, the end of the call |
//! | commands, call on hold | command lines | `O`, `H`, `Z`, the end of the call |
//!
//! # Order of calls
//! Give every byte to [`Interpreter::terminal`] and every event to [`Interpreter::line`] in order
//! of time. Call [`Interpreter::handle_timeout`] when [`Interpreter::next_timeout`] passes (the
//! other two do it first by themselves). After each of these calls take [`Interpreter::next_order`]
//! until there is none, and write [`Interpreter::take_output`] to the terminal before any data from
//! the line.
//!
//! # Example
//! ```
//! use punctual_model::Instant;
//! use punctual_modem::at::{Interpreter, Order};
//!
//! let mut modem = Interpreter::new();
//! let now = Instant::ZERO;
//! for &byte in b"ATE0DT5551\r" {
//!     assert_eq!(modem.terminal(now, byte), None, "no call, so nothing is data");
//! }
//! let Some(Order::Dial(number)) = modem.next_order() else { panic!("it dials") };
//! assert_eq!(number.digits().collect::<String>(), "5551");
//! ```

mod command;
mod dial;
pub mod escape;
mod execute;
mod interpreter;
mod line_buffer;
mod registers;
mod result;
mod settings;

pub use crate::at::settings::Compressed;
pub use dial::{DialError, DialStep, DialString, MAX_STEPS};
pub use interpreter::{ABORT_GRACE, Interpreter, LineEvent, Order, RING_MEMORY};
pub use line_buffer::LINE_ROOM;
pub use registers::{Register, RegisterError, Registers};
pub use result::{Connection, OUTPUT_ROOM, ResultCode};
pub use settings::{
    CompressionSelection, ErrorControl, ErrorSelection, Fallback, Modulation, OriginatorRequest,
    Settings, TerminalGone,
};
