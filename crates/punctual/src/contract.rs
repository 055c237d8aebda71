//! Reads a contract from a file or from standard input, as TOML or as an rt-app workload in JSON.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use punctual_model::{Contract, rt_app};
use serde::Serialize;

use crate::Failure;

/// The longest contract that is read, in bytes: far more than its 16,384 entries need.
const MAX_BYTES: u64 = 8 << 20;

/// A contract, with the notes that came up while its file was read.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The contract itself.
    pub contract: Contract,
    /// Notes on parts of the file that the contract does not cover, as `file:line:column: text`, in
    /// file order. Empty for TOML.
    pub notes: Vec<String>,
    /// The text of the file.
    pub text: String,
}

impl Declared {
    /// Returns whether it is a workload of rt-app, which names no program to start.
    pub fn is_rt_app(&self) -> bool {
        // TOML never begins with a brace.
        begins_as_json(self.text.as_bytes())
    }
}

/// A result for a contract, with the notes that came up while its file was read. It serialises as
/// the keys of the result, and `notes`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Noted<'a, T> {
    /// The result.
    #[serde(flatten)]
    pub result: &'a T,
    /// The notes ([`Declared::notes`]).
    pub notes: &'a [String],
}

/// Reads and validates the contract at `path`; "-" is standard input.
///
/// # Errors
/// If the file cannot be read, is longer than 8 MiB, or declares something impossible. The message
/// gives the position.
pub fn read(path: &Path) -> Result<Declared, Failure> {
    let (name, bytes) = bytes_of(path)?;
    parse(&name, &bytes, is_json(path, &bytes))
}

/// Validates the contract in `text`, which is JSON if it begins with a brace. `name` is its name in
/// messages.
///
/// # Errors
/// If the text is longer than 8 MiB, or declares something impossible. The message gives the
/// position.
///
/// # Examples
/// ```
/// let refused = punctual::contract::of_text("inline", b"[[task]]\nname = 7\n").unwrap_err();
/// assert!(refused.to_string().starts_with("inline:2:8: "), "{refused}");
/// ```
pub fn of_text(name: &str, text: &[u8]) -> Result<Declared, Failure> {
    bounded(name, text)?;
    parse(name, text, begins_as_json(text))
}

fn parse(name: &str, bytes: &[u8], is_json: bool) -> Result<Declared, Failure> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if !is_json {
        let contract = Contract::parse(name, bytes).map_err(Failure::bad_input)?;
        return Ok(Declared { contract, notes: Vec::new(), text });
    }
    let imported = rt_app::parse(name, bytes).map_err(Failure::bad_input)?;
    let notes = imported
        .notes
        .iter()
        .map(|note| format!("{name}:{}:{}: {}", note.line, note.column, note.what))
        .collect();
    Ok(Declared { contract: imported.contract, notes, text })
}

/// Returns whether the contract is JSON. The name of a file decides. Standard input has no name:
/// there, JSON begins with a brace, and TOML never does.
fn is_json(path: &Path, bytes: &[u8]) -> bool {
    if path == Path::new("-") {
        begins_as_json(bytes)
    } else {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    }
}

fn begins_as_json(bytes: &[u8]) -> bool {
    first_significant(bytes) == Some(b'{')
}

/// Returns the first byte that is neither white space nor part of a comment as JSON files have
/// them.
fn first_significant(bytes: &[u8]) -> Option<u8> {
    // The byte order mark with which some editors begin a text.
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    loop {
        rest = rest.trim_ascii_start();
        rest = match rest {
            [b'/', b'/', ..] => &rest[rest.iter().position(|&byte| byte == b'\n')?..],
            [b'/', b'*', ..] => &rest[2 + rest[2..].windows(2).position(|end| end == b"*/")? + 2..],
            _ => return rest.first().copied(),
        };
    }
}

/// Returns the name of a contract for messages; "-" becomes "standard input".
pub fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// Returns the name for messages, and the bytes.
fn bytes_of(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = name_of(path);
    let bytes = if path == Path::new("-") {
        read_bounded(io::stdin().lock())
    } else {
        File::open(path).and_then(read_bounded)
    };
    let bytes = bytes.map_err(|error| {
        Failure::bad_input(format!("{name}: cannot read the contract: {error}"))
    })?;
    bounded(&name, &bytes)?;
    Ok((name, bytes))
}

fn bounded(name: &str, bytes: &[u8]) -> Result<(), Failure> {
    if bytes.len() as u64 <= MAX_BYTES {
        return Ok(());
    }
    let most = MAX_BYTES >> 20;
    Err(Failure::bad_input(format!("{name}: longer than the {most} MiB that a contract may have")))
}

/// Reads at most one byte more than allowed, so that an endless file ends.
fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
