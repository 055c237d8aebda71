//! Reads a trace file, whole or as it grows.

use super::block::{Block, WireAsked, WireSubject};
use super::frame::{self, Damage, Found, PREAMBLE};
use super::verdict::WireVerdict;
use super::{events, writer};

/// Where a reader is in a file. The bytes are the caller's: a mapped file, one read into memory, or
/// one read again because it grew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    at: usize,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next block.
    Block(Block),
    /// No whole block is left: the writer may append, or died. `bytes` of one are there.
    End {
        /// Bytes after the last whole block.
        bytes: usize,
    },
}

impl Reader {
    /// At the beginning.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that have been read, from the beginning of the file: where a damage lies.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Reads on in `file`, all of it from its first byte. The bytes before
    /// [`position`](Self::position) are not looked at.
    ///
    /// # Errors
    ///
    /// [`Damage`]; [`skip`](Self::skip) goes on behind it, unless this is no trace at all.
    pub fn step(&mut self, file: &[u8]) -> Result<Step, Damage> {
        if self.at == 0 {
            let Some(preamble) = file.first_chunk::<PREAMBLE>() else {
                let known = file.len().min(8);
                return if file[..known] == frame::preamble()[..known] {
                    Ok(Step::End { bytes: file.len() })
                } else {
                    Err(Damage::NoTrace)
                };
            };
            frame::check_preamble(preamble)?;
            self.at = PREAMBLE;
        }
        let rest = file.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(Step::End { bytes: 0 });
        }
        match frame::find(rest)? {
            Found::Beginning => Ok(Step::End { bytes: rest.len() }),
            Found::Block { kind, payload, bytes } => {
                let block = understand(kind, payload).ok_or(Damage::Senseless { kind })?;
                self.at += bytes;
                Ok(Step::Block(block))
            }
        }
    }

    /// After a damage: to the next whole block. How many bytes were passed over; `None` if no whole
    /// block follows, and then the reader stays where it is.
    pub fn skip(&mut self, file: &[u8]) -> Option<usize> {
        let from = self.at;
        if from == 0 {
            return None;
        }
        let mut at = from;
        loop {
            at += frame::next_mark(file.get(at..)?)?;
            if matches!(frame::find(&file[at..]), Ok(Found::Block { .. })) {
                self.at = at;
                return Some(at - from);
            }
        }
    }
}

fn understand(kind: u8, payload: &[u8]) -> Option<Block> {
    Some(match kind {
        writer::RUN => Block::Run(whole(payload)?),
        writer::SUBJECT => whole::<WireSubject>(payload)?.block(),
        writer::EVENTS => Block::Events(events::decode(payload)?),
        writer::LOST => Block::Lost(whole(payload)?),
        writer::VERDICT => Block::Verdict(whole::<WireVerdict>(payload)?.verdict()),
        writer::ASKED => whole::<WireAsked>(payload)?.block()?,
        writer::END => Block::End(punctual_model::Instant::from_nanos(whole(payload)?)),
        _ => Block::Unknown { kind, bytes: payload.len() },
    })
}

/// A payload that is one value, and nothing after it.
fn whole<'a, T: serde::Deserialize<'a>>(payload: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(payload).ok()?;
    rest.is_empty().then_some(value)
}
