//! Reads text into a tree, which is the JSON document as it was written: with the order and the
//! repetitions of its keys, and with the place of each key and value. It accepts JSON with the
//! extensions that rt-app's own files use.
//!
//! Beyond JSON it accepts `/* … */` and `// …` comments, a comma after the last entry, keys that
//! occur more than once, and keys without a value. Nothing else: a missing comma or an unterminated
//! string is an error with its place.
//!
//! Every byte is examined a bounded number of times; depth and number of values are bounded too.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::problem::{Checked, Problem, printable, problem};

/// The deepest nesting of lists and objects: `tasks`, a thread, `phases`, a phase and a timer make
/// six.
const MAX_DEPTH: usize = 32;

/// The most values in one file, far more than the entries of a contract can use.
const MAX_VALUES: usize = 1 << 18;

/// Reads the one value that makes up `text`.
pub(super) fn read(text: &str) -> Checked<Node> {
    // Some editors write a byte order mark, which has no meaning in UTF-8.
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader { text, at, values: 0 };
    reader.blank()?;
    let root = reader.value(0)?;
    reader.blank()?;
    match reader.peek() {
        None => Ok(root),
        Some(_) => problem(reader.at, "the document has ended; nothing may follow it"),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the character here, for messages.
    fn here(&self) -> String {
        match self.text[self.at..].chars().next() {
            Some(found) => format!("\"{}\"", printable(found.encode_utf8(&mut [0; 4]))),
            None => "the end of the file".to_owned(),
        }
    }

    /// Skips white space and comments.
    fn blank(&mut self) -> Checked<()> {
        loop {
            let rest = &self.text[self.at..];
            match rest.as_bytes() {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.at += 1,
                [b'/', b'/', ..] => self.at += rest.find('\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => match rest[2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => return problem(self.at, "this comment is not closed; write */"),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Checked<Node> {
        let offset = self.at;
        self.count(offset)?;
        if depth > MAX_DEPTH {
            return problem(offset, format!("more than {MAX_DEPTH} levels deep"));
        }
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word()?,
            _ => {
                return problem(offset, format!("a value is missing here, before {}", self.here()));
            }
        };
        Ok(Node { offset, value })
    }

    fn count(&mut self, offset: usize) -> Checked<()> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return problem(offset, format!("more than {MAX_VALUES} values: split the file"));
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Checked<Value> {
        let opened = self.at;
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            let offset = self.at;
            let key = match self.peek() {
                Some(b'}') => break,
                Some(b'"') => self.string()?,
                None => return problem(opened, "this { is not closed; write }"),
                Some(_) => {
                    let found = self.here();
                    return problem(
                        offset,
                        format!("a key in quotes or }} belongs here, not {found}"),
                    );
                }
            };
            self.blank()?;
            let node = self.member_value(depth)?;
            members.push(Member { key, offset, node });
            if self.entry_ends(b'}', opened)? {
                break;
            }
        }
        self.at += 1;
        Ok(Value::Object(members))
    }

    /// Reads the rest of a member after its key: `: value`, `:` alone, or nothing.
    fn member_value(&mut self, depth: usize) -> Checked<Node> {
        if self.peek() == Some(b':') {
            self.at += 1;
            self.blank()?;
        } else if !matches!(self.peek(), Some(b',' | b'}')) {
            return problem(self.at, format!("a colon belongs here, not {}", self.here()));
        }
        if matches!(self.peek(), Some(b',' | b'}')) {
            self.count(self.at)?;
            return Ok(Node { offset: self.at, value: Value::Absent });
        }
        self.value(depth + 1)
    }

    fn list(&mut self, depth: usize) -> Checked<Value> {
        let opened = self.at;
        let mut nodes = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            if self.peek() == Some(b']') {
                break;
            }
            if self.peek().is_none() {
                return problem(opened, "this [ is not closed; write ]");
            }
            nodes.push(self.value(depth + 1)?);
            if self.entry_ends(b']', opened)? {
                break;
            }
        }
        self.at += 1;
        Ok(Value::List(nodes))
    }

    /// Skips the comma after an entry; returns true if `close` is there instead.
    fn entry_ends(&mut self, close: u8, opened: usize) -> Checked<bool> {
        self.blank()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == close => Ok(true),
            None => {
                let close = char::from(close);
                problem(opened, format!("what opens here is not closed; write {close}"))
            }
            Some(_) => {
                let (close, found) = (char::from(close), self.here());
                problem(self.at, format!("a comma or {close} belongs here, not {found}"))
            }
        }
    }

    fn string(&mut self) -> Checked<String> {
        let opened = self.at;
        let not_closed =
            || Problem { offset: opened, text: "this string is not closed on its line".to_owned() };
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let length = rest.find(['"', '\\', '\n']).ok_or_else(not_closed)?;
            string.push_str(&rest[..length]);
            self.at += length;
            match rest.as_bytes()[length] {
                b'"' => {
                    self.at += 1;
                    return Ok(string);
                }
                b'\\' => string.push(self.escaped()?),
                _ => return Err(not_closed()),
            }
        }
    }

    fn escaped(&mut self) -> Checked<char> {
        let offset = self.at;
        self.at += 2;
        let simple = match self.text.as_bytes().get(offset + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.code_point(offset),
            _ => return problem(offset, "JSON knows no such escape; write \\\\ for a backslash"),
        };
        Ok(simple)
    }

    /// Reads the rest of a `\u` escape: four digits, and four more after a second `\u` if the first
    /// are the first half of a surrogate pair.
    fn code_point(&mut self, offset: usize) -> Checked<char> {
        let wrong = || Problem {
            offset,
            text: "\\u takes four hexadecimal digits that name a character".to_owned(),
        };
        let first = self.four_digits().ok_or_else(wrong)?;
        let code = if (0xd800..0xdc00).contains(&first) {
            if !self.text[self.at..].starts_with("\\u") {
                return Err(wrong());
            }
            self.at += 2;
            let second = self.four_digits().ok_or_else(wrong)?;
            let low = second.checked_sub(0xdc00).filter(|&low| low < 0x400).ok_or_else(wrong)?;
            0x10000 + ((first - 0xd800) << 10) + low
        } else {
            first
        };
        char::from_u32(code).ok_or_else(wrong)
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.chars().try_fold(0, |code, digit| Some(code * 16 + digit.to_digit(16)?))
    }

    fn number(&mut self) -> Checked<Value> {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let written = &rest[..length];
        let offset = self.at;
        self.at += length;
        if let Ok(number) = written.parse() {
            return Ok(Value::Int(number));
        }
        match written.parse::<f64>() {
            Ok(_) => Ok(Value::OtherNumber),
            Err(_) => problem(offset, format!("\"{}\" is not a number", printable(written))),
        }
    }

    /// Reads `true`, `false` or `null`, in any case, as rt-app's JSON library does.
    fn word(&mut self) -> Checked<Value> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = &rest[..length];
        let value =
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
                .into_iter()
                .find_map(|(name, value)| name.eq_ignore_ascii_case(word).then_some(value));
        match value {
            Some(value) => {
                self.at += length;
                Ok(value)
            }
            None => {
                problem(self.at, format!("\"{}\" is no value; text needs quotes", printable(word)))
            }
        }
    }
}

/// A value and the byte offset where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) offset: usize,
    pub(super) value: Value,
}

/// A JSON value, with two extensions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A whole number without exponent that fits.
    Int(i64),
    /// Any other number. No key of a workload takes one, so its value is never read.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
    /// The value of a key that stands alone: `"suspend",`.
    Absent,
}

impl Value {
    /// Describes the kind of value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a whole number",
            Self::OtherNumber => "a number that is not whole or too large",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Absent => "nothing",
        }
    }
}

/// One `"key" : value` of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    /// The byte offset where the key begins.
    pub(super) offset: usize,
    pub(super) node: Node,
}

/// Returns the first member called `key`.
pub(super) fn find<'a>(members: &'a [Member], key: &str) -> Option<&'a Member> {
    members.iter().find(|member| member.key == key)
}
