//! Reads the blocks of a trace file of any length through a window of memory.

use std::io::{self, Read};

use punctual_trace::file::{Block, Damage, Gap, HEADER, LONGEST, Reader, Step};
use thiserror::Error;

/// The reason why a file cannot be reported on.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file is not a trace, or is of another version.
    #[error("{0}")]
    NoTrace(Damage),
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The most bytes of the file that are held: several of the longest blocks.
const WINDOW: usize = 4 << 20;
/// With this many bytes available, a block that begins at the current position is either whole or
/// damaged.
const ENOUGH: usize = HEADER + LONGEST;

/// The next item of a file.
pub(crate) enum Item {
    /// A whole block.
    Block(Block),
    /// Damage at byte `at` of the file, and the number of bytes that were skipped.
    Damage { at: u64, damage: Damage, bytes: u64 },
    /// Blocks are missing here. After damage at the end of the file, their number is unknown.
    Missing(Gap),
    /// The end of the file, with the number of bytes of an incomplete block.
    End { bytes: u64 },
}

/// Reads block by block.
pub(crate) struct Blocks<R> {
    from: R,
    /// The part of the file that is in memory.
    window: Vec<u8>,
    reader: Reader,
    /// The number of bytes before the window.
    gone: u64,
    exhausted: bool,
    /// The damage that is being skipped.
    damage: Option<(u64, Damage)>,
    /// The step read after damage, to be returned after the damage itself.
    after: Option<Step>,
}

impl<R: Read> Blocks<R> {
    pub(crate) fn new(from: R) -> Self {
        let (window, reader) = (Vec::new(), Reader::new());
        Self { from, window, reader, gone: 0, exhausted: false, damage: None, after: None }
    }

    /// Returns the next block, damage, gap, or the end. The end is returned again by further calls.
    pub(crate) fn next(&mut self) -> Result<Item, ReadError> {
        if let Some(step) = self.after.take() {
            return Ok(item_of(step));
        }
        loop {
            if self.window.is_empty() && !self.exhausted {
                self.more()?;
            }
            let here = self.at();
            match self.reader.step(&self.window) {
                Ok(Step::End { .. }) if !self.exhausted => self.more()?,
                Ok(step) => {
                    let Some((at, damage)) = self.damage.take() else { return Ok(item_of(step)) };
                    self.after = Some(match step {
                        // The damage extends to the end.
                        Step::End { .. } => Step::Missing(Gap::default()),
                        step => step,
                    });
                    return Ok(Item::Damage { at, damage, bytes: here - at });
                }
                Err(_) if self.ahead() < ENOUGH && !self.exhausted => self.more()?,
                Err(damage) => {
                    // This position is after the preamble, if that was read just now.
                    let (here, has_begun) = (self.at(), self.reader.has_begun());
                    if self.reader.skip(&self.window).is_none() {
                        if !has_begun {
                            return Err(ReadError::NoTrace(damage));
                        }
                        // No block begins before the last bytes of the window.
                        let keep = if self.exhausted { 0 } else { ENOUGH.min(self.ahead()) };
                        self.drop_before(self.window.len() - keep);
                        if !self.exhausted {
                            self.more()?;
                        }
                    }
                    self.damage.get_or_insert((here, damage));
                }
            }
        }
    }

    /// Returns the offset in the file that is read next.
    fn at(&self) -> u64 {
        self.gone + self.reader.position() as u64
    }

    fn ahead(&self) -> usize {
        self.window.len().saturating_sub(self.reader.position())
    }

    /// Drops the part of the window before `position`, which has been read or skipped.
    fn drop_before(&mut self, position: usize) {
        self.window.drain(..position);
        self.gone += position as u64;
        self.reader.forget(position);
    }

    /// Makes room and fills it.
    fn more(&mut self) -> Result<(), ReadError> {
        self.drop_before(self.reader.position());
        let room = WINDOW.saturating_sub(self.window.len()) as u64;
        let read = self.from.by_ref().take(room).read_to_end(&mut self.window)?;
        self.exhausted = (read as u64) < room;
        Ok(())
    }
}

fn item_of(step: Step) -> Item {
    match step {
        Step::Block(block) => Item::Block(block),
        Step::Missing(gap) => Item::Missing(gap),
        Step::End { bytes } => Item::End { bytes: bytes as u64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Instant, JobId};
    use punctual_trace::file::{Lost, Run, Writer};
    use punctual_trace::{Event, Kind};

    /// Makes a file of 10,000 events, and a loss, `blocks` times.
    fn file(blocks: u64) -> Vec<u8> {
        let mut writer = Writer::new(&Run::default());
        for block in 0..blocks {
            let job = |n: u64| JobId { task: 3, index: block * 10_000 + n };
            let at = |n: u64| Instant::from_nanos((block * 10_000 + n) * 1_000_003);
            let event = |n| Event { at: at(n), job: job(n), release: at(n), kind: Kind::Start };
            writer.events(&(0..10_000).map(event).collect::<Vec<_>>());
            writer.lost(Lost::new(at(9_999), block));
        }
        writer.end(Instant::from_nanos(7));
        writer.take()
    }

    /// All blocks and everything reported between them, as this reader or the whole-file reader
    /// returns it.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Contents {
        blocks: Vec<Block>,
        damaged: Vec<(u64, Damage, u64)>,
        gaps: Vec<Gap>,
        rest: u64,
    }

    fn here(bytes: &[u8]) -> Contents {
        let (mut blocks, mut said) = (Blocks::new(bytes), Contents::default());
        loop {
            match blocks.next().expect("a trace") {
                Item::Block(block) => said.blocks.push(block),
                Item::Damage { at, damage, bytes } => said.damaged.push((at, damage, bytes)),
                Item::Missing(gap) => said.gaps.push(gap),
                Item::End { bytes } => return Contents { rest: bytes, ..said },
            }
        }
    }

    fn whole(bytes: &[u8]) -> Contents {
        let (mut reader, mut said) = (Reader::new(), Contents::default());
        loop {
            match reader.step(bytes) {
                Ok(Step::Block(block)) => said.blocks.push(block),
                Ok(Step::Missing(gap)) => said.gaps.push(gap),
                Ok(Step::End { bytes }) => return Contents { rest: bytes as u64, ..said },
                Err(damage) => {
                    let at = reader.position();
                    let passed = reader.skip(bytes);
                    let all = passed.unwrap_or(bytes.len() - at);
                    said.damaged.push((at as u64, damage, all as u64));
                    if passed.is_none() {
                        said.gaps.push(Gap::default());
                        return said;
                    }
                }
            }
        }
    }

    #[test]
    fn a_file_longer_than_the_window_reads_as_it_does_in_one_piece() {
        let mut bytes = file(120);
        assert!(bytes.len() > 2 * WINDOW, "{}", bytes.len());
        assert_eq!(here(&bytes), whole(&bytes));
        for at in [3, 20, 40] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert_eq!(here(&bytes), whole(&bytes), "{at}");
        }
        // Damages many places, also near the ends of windows.
        for at in (1_000..bytes.len()).step_by(WINDOW / 3) {
            bytes[at] ^= 0x55;
        }
        let Contents { blocks, damaged, gaps, .. } = here(&bytes);
        assert!(damaged.len() > 4 && gaps.len() > 4 && blocks.len() > 100, "{damaged:?} {gaps:?}");
        assert_eq!(here(&bytes), whole(&bytes));
        // A hole longer than a window.
        bytes[WINDOW / 2..WINDOW * 2].fill(0);
        assert_eq!(here(&bytes), whole(&bytes));
        bytes.truncate(bytes.len() - 100_000);
        assert_eq!(here(&bytes), whole(&bytes));
    }

    #[test]
    fn other_files_are_refused_and_a_partial_trace_is_read() {
        for bytes in [&b"hello, this is no trace"[..], b"x"] {
            assert!(matches!(Blocks::new(bytes).next(), Err(ReadError::NoTrace(_))));
        }
        for length in 0..punctual_trace::file::PREAMBLE {
            let bytes = &file(0)[..length];
            assert!(matches!(Blocks::new(bytes).next(), Ok(Item::End { .. })), "{length}");
        }
    }
}
