//! Assembles bytes into command lines: the prefix `AT`, the body, its end, and `A/` (V.250 §5.2).

use super::registers::Register;
use super::result::Output;
use super::settings::Settings;

/// The largest number of characters in the body of a line. V.250 §5.2.1 requires at least 40.
pub const LINE_ROOM: usize = 255;

/// The effect of a byte.
pub(super) enum Progress {
    /// No line is complete.
    Part,
    /// A line is complete, and [`LineBuffer::body`] holds the text between `AT` and its end.
    Line,
    /// A line is complete, but longer than [`LINE_ROOM`].
    TooLong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a line.
    Outside,
    /// After an A in upper or lower case: T or `/` must follow in the same case.
    Prefix { upper: bool },
    /// In the body.
    Body,
    /// In a body that is too long: skips everything up to its end.
    TooLong,
}

/// The line being typed, and the last one for `A/`.
#[derive(Clone, Debug)]
pub(super) struct LineBuffer {
    place: Place,
    body: Vec<u8>,
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self { place: Place::Outside, body: Vec::with_capacity(LINE_ROOM) }
    }
}

impl LineBuffer {
    /// Returns the last complete line, or the line typed so far.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Discards a line being typed; `A/` repeats the part typed so far.
    pub(super) fn clear(&mut self) {
        self.place = Place::Outside;
    }

    /// Takes a byte from the terminal, and echoes it if E is set.
    pub(super) fn byte(&mut self, byte: u8, settings: &Settings, output: &mut Output) -> Progress {
        // The eighth bit may be a parity bit, and no command needs it (V.250 §5.1).
        let byte = byte & 0x7f;
        let editing = settings.registers.get(Register::Editing);
        let ends = byte == settings.registers.get(Register::Terminator);
        if self.place == Place::Body && byte == editing && !ends {
            self.take_back(editing, settings, output);
            return Progress::Part;
        }
        if settings.echo {
            output.put(&[byte]);
        }
        match self.place {
            Place::Body if ends => {
                self.place = Place::Outside;
                return Progress::Line;
            }
            Place::TooLong if ends => {
                self.place = Place::Outside;
                self.body.clear();
                return Progress::TooLong;
            }
            Place::Body => self.append(byte),
            Place::TooLong => {}
            Place::Prefix { upper } if byte == if upper { b'T' } else { b't' } => {
                self.body.clear();
                self.place = Place::Body;
            }
            Place::Prefix { .. } if byte == b'/' => {
                self.place = Place::Outside;
                return Progress::Line;
            }
            Place::Outside | Place::Prefix { .. } => {
                self.place = match byte {
                    b'A' => Place::Prefix { upper: true },
                    b'a' => Place::Prefix { upper: false },
                    _ => Place::Outside,
                };
            }
        }
        Progress::Part
    }

    /// Appends a byte. Control characters are not part of a line (V.250 §5.2.2), so a line feed
    /// does no harm.
    fn append(&mut self, byte: u8) {
        if byte < b' ' || byte == 0x7f {
            return;
        }
        if self.body.len() < LINE_ROOM {
            self.body.push(byte);
        } else {
            self.place = Place::TooLong;
        }
    }

    /// Removes the last character. The prefix stays (V.250 §6.2.3).
    fn take_back(&mut self, editing: u8, settings: &Settings, output: &mut Output) {
        if self.body.pop().is_some() && settings.echo {
            output.put(&[editing, b' ', editing]);
        }
    }
}
