//! The blocks of a trace file of any length, in a window of memory.

use std::io::Read;

use punctual_trace::file::{Block, Damage, HEADER, LONGEST, PREAMBLE, Reader, Step};

use crate::ReadError;

/// Bytes of the file that are held at most: several of the longest blocks.
const WINDOW: usize = 4 << 20;
/// With so many bytes at hand, a block that begins here is whole or damaged.
const ENOUGH: usize = HEADER + LONGEST;

/// What comes next in a file.
pub(crate) enum Came {
    /// A whole block.
    Block(Block),
    /// Something is damaged at this byte of the file, and so many bytes were passed over.
    Damage { at: u64, damage: Damage, bytes: u64 },
    /// Nothing follows but so many bytes of a block that is not whole.
    End { bytes: u64 },
}

/// Reads block by block. A block needs none of those before it, so the reader is begun again behind a
/// preamble wherever the window moves to.
pub(crate) struct Blocks<R> {
    from: R,
    /// The preamble, and the part of the file that is looked at.
    window: Vec<u8>,
    reader: Reader,
    /// Bytes of the file that are gone from the window.
    gone: u64,
    exhausted: bool,
    /// What is being passed over.
    damage: Option<(u64, Damage)>,
}

impl<R: Read> Blocks<R> {
    pub(crate) fn new(from: R) -> Self {
        let (window, reader) = (Vec::new(), Reader::new());
        Self { from, window, reader, gone: 0, exhausted: false, damage: None }
    }

    /// The next block, damage, or the end, which then comes again and again.
    pub(crate) fn next(&mut self) -> Result<Came, ReadError> {
        loop {
            if self.window.is_empty() && !self.exhausted {
                self.more()?;
            }
            let here = self.at();
            match self.reader.step(&self.window) {
                Ok(step) => {
                    if let Step::End { .. } = step
                        && !self.exhausted
                    {
                        self.more()?;
                        continue;
                    }
                    if let Some((at, damage)) = self.damage.take() {
                        // The block is whole: it is read again after the damage was told.
                        self.begin_at(here);
                        return Ok(Came::Damage { at, damage, bytes: here - at });
                    }
                    return Ok(match step {
                        Step::Block(block) => Came::Block(block),
                        Step::End { bytes } => Came::End { bytes: bytes as u64 },
                    });
                }
                Err(damage) if self.reader.position() == 0 => {
                    return Err(ReadError::NoTrace(damage));
                }
                Err(_) if self.ahead() < ENOUGH && !self.exhausted => self.more()?,
                Err(damage) => {
                    self.damage.get_or_insert((here, damage));
                    if self.reader.skip(&self.window).is_some() {
                        continue;
                    }
                    // No block begins before the last bytes of the window.
                    let keep = if self.exhausted { 0 } else { ENOUGH.min(self.ahead()) };
                    let from = self.window.len() - keep;
                    self.drop_before(from);
                    if !self.exhausted {
                        self.more()?;
                    }
                }
            }
        }
    }

    /// The byte of the file that is read next.
    fn at(&self) -> u64 {
        // A reader that was begun again has not yet seen the preamble.
        self.gone + self.reader.position().max(PREAMBLE) as u64
    }

    fn ahead(&self) -> usize {
        self.window.len().saturating_sub(self.reader.position())
    }

    /// Goes back to a byte of the file that is still in the window.
    fn begin_at(&mut self, at: u64) {
        let position = usize::try_from(at - self.gone).unwrap_or(usize::MAX);
        self.drop_before(position);
    }

    /// What lies before this byte of the window has been read.
    fn drop_before(&mut self, position: usize) {
        let position = position.clamp(PREAMBLE.min(self.window.len()), self.window.len());
        let dropped = self.window.drain(PREAMBLE.min(position)..position).count();
        self.gone += dropped as u64;
        self.reader = Reader::new();
    }

    /// Makes room and fills it.
    fn more(&mut self) -> Result<(), ReadError> {
        if self.reader.position() > 0 {
            self.drop_before(self.reader.position());
        }
        let room = (WINDOW + PREAMBLE).saturating_sub(self.window.len()) as u64;
        let read = self.from.by_ref().take(room).read_to_end(&mut self.window)?;
        self.exhausted = (read as u64) < room;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Instant, JobId};
    use punctual_trace::file::{Lost, Run, Writer};
    use punctual_trace::{Event, Kind};

    /// A file of about so many bytes.
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

    /// All blocks with whatever is said between, by this reader and by the one of the whole file.
    fn here(bytes: &[u8]) -> (Vec<Block>, Vec<(u64, Damage)>, u64) {
        let mut blocks = Blocks::new(bytes);
        let (mut read, mut damaged) = (Vec::new(), Vec::new());
        loop {
            match blocks.next().expect("a trace") {
                Came::Block(block) => read.push(block),
                Came::Damage { at, damage, .. } => damaged.push((at, damage)),
                Came::End { bytes } => return (read, damaged, bytes),
            }
        }
    }

    fn whole(bytes: &[u8]) -> (Vec<Block>, Vec<(u64, Damage)>, u64) {
        let mut reader = Reader::new();
        let (mut read, mut damaged) = (Vec::new(), Vec::new());
        loop {
            match reader.step(bytes) {
                Ok(Step::Block(block)) => read.push(block),
                Ok(Step::End { bytes }) => return (read, damaged, bytes as u64),
                Err(damage) => {
                    damaged.push((reader.position() as u64, damage));
                    if reader.skip(bytes).is_none() {
                        return (read, damaged, 0);
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
        // Damage everywhere, also near where windows end.
        for at in (1_000..bytes.len()).step_by(WINDOW / 3) {
            bytes[at] ^= 0x55;
        }
        let (read, damaged, _) = here(&bytes);
        assert!(damaged.len() > 4 && read.len() > 100, "{} {}", damaged.len(), read.len());
        assert_eq!(here(&bytes), whole(&bytes));
        // A hole longer than a window.
        bytes[WINDOW / 2..WINDOW * 2].fill(0);
        assert_eq!(here(&bytes), whole(&bytes));
        bytes.truncate(bytes.len() - 100_000);
        assert_eq!(here(&bytes), whole(&bytes));
    }

    #[test]
    fn what_is_no_trace_is_refused_and_a_beginning_is_one() {
        for bytes in [&b"hello, this is no trace"[..], b"x"] {
            assert!(matches!(Blocks::new(bytes).next(), Err(ReadError::NoTrace(_))));
        }
        for length in 0..PREAMBLE {
            let bytes = &file(0)[..length];
            assert!(matches!(Blocks::new(bytes).next(), Ok(Came::End { .. })), "{length}");
        }
    }
}
