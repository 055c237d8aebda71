//! Reads a trace file, whole or as it grows.

use super::block::{Block, WireRequest, WireSubject};
use super::frame::{self, Before, Broken, Damage, Found, Gap, PREAMBLE};
use super::verdict::WireVerdict;
use super::{events, writer};

/// The position of a reader in a file. The caller holds the bytes: a mapped file, a file read into
/// memory, a file read again because it grew, or a window that moves over it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    at: usize,
    /// The preamble was read or skipped.
    has_begun: bool,
    /// The counts that the next block has if none is missing.
    before: Before,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next block.
    Block(Block),
    /// Blocks are missing here.
    Missing(Gap),
    /// No whole block is left: the writer may append more, or died.
    End {
        /// The bytes after the last whole block.
        bytes: usize,
    },
}

impl Reader {
    /// Starts at the beginning of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many bytes have been read. After an error, this is where the damage lies.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns whether anything of a trace was seen.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Tells the reader that the first `bytes` bytes, which have been read, are no longer part of
    /// `file` in the next call.
    pub fn forget(&mut self, bytes: usize) {
        self.at -= bytes.min(self.at);
    }

    /// Reads the next block of `file`, which is the whole file from its first byte. The bytes
    /// before [`position`](Self::position) are not looked at.
    ///
    /// # Errors
    ///
    /// Returns [`Damage`]; [`skip`](Self::skip) continues after it.
    pub fn step(&mut self, file: &[u8]) -> Result<Step, Damage> {
        if !self.has_begun {
            let Some(preamble) = file.first_chunk::<PREAMBLE>() else {
                let known = file.len().min(8);
                return if file[..known] == frame::preamble()[..known] {
                    Ok(Step::End { bytes: file.len() })
                } else {
                    Err(Damage::NoTrace)
                };
            };
            frame::check_preamble(preamble)?;
            (self.at, self.has_begun) = (PREAMBLE, true);
        }
        let rest = file.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(Step::End { bytes: 0 });
        }
        match frame::find(rest).map_err(|broken| broken.damage)? {
            Found::Beginning => Ok(Step::End { bytes: rest.len() }),
            Found::Block { kind, before, payload, bytes } => {
                if self.before.is_behind(before) {
                    return Err(Damage::OutOfOrder);
                }
                let gap = self.before.gap_to(before);
                if gap != Gap::default() {
                    self.before = before;
                    return Ok(Step::Missing(gap));
                }
                let block = understand(kind, payload).ok_or(Damage::Senseless { kind })?;
                self.before = match &block {
                    Block::Events(events) => before.and(events.len(), 0),
                    Block::Subject(..) => before.and(0, 1),
                    _ => before.and(0, 0),
                };
                self.at += bytes;
                Ok(Step::Block(block))
            }
        }
    }

    /// Moves past damage to the next whole block. Returns how many bytes were skipped, or `None` if
    /// no whole block follows; the reader then stays where it is.
    pub fn skip(&mut self, file: &[u8]) -> Option<usize> {
        let from = self.at;
        let mut at = from;
        loop {
            let passed = match frame::find(file.get(at..).filter(|rest| !rest.is_empty())?) {
                Ok(Found::Block { kind, before, payload, .. })
                    if !self.before.is_behind(before) && understand(kind, payload).is_some() =>
                {
                    (self.at, self.has_begun) = (at, true);
                    return Some(at - from);
                }
                Ok(Found::Block { bytes, .. }) | Err(Broken { bytes, .. }) => bytes,
                Ok(Found::Beginning) => 1,
            };
            at += passed;
            at += frame::next_mark(file.get(at..)?)?;
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
        writer::REQUEST => whole::<WireRequest>(payload)?.block()?,
        writer::END => Block::End(punctual_model::Instant::from_nanos(whole(payload)?)),
        _ => Block::Unknown { kind, bytes: payload.len() },
    })
}

/// Decodes a payload that is one value with nothing after it.
fn whole<'a, T: serde::Deserialize<'a>>(payload: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(payload).ok()?;
    rest.is_empty().then_some(value)
}
