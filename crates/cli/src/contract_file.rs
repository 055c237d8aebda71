//! A contract from a file or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use punctual_model::Contract;

use crate::exit::Failure;

/// The longest contract that is read: far more than its 4096 entries need.
const MAX_BYTES: u64 = 8 << 20;

/// Reads and validates the contract at `path`; "-" is standard input.
pub(crate) fn read(path: &Path) -> Result<Contract, Failure> {
    let (name, bytes) = bytes_of(path)?;
    Contract::parse(&name, &bytes).map_err(Failure::bad_input)
}

/// The name for messages, and the bytes.
fn bytes_of(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let (name, bytes) = if path == Path::new("-") {
        ("standard input".to_owned(), read_bounded(io::stdin().lock()))
    } else {
        (path.display().to_string(), File::open(path).and_then(read_bounded))
    };
    let bytes = bytes.map_err(|error| {
        Failure::bad_input(format!("{name}: cannot read the contract: {error}"))
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(Failure::bad_input(format!(
            "{name}: longer than the {most} MiB that a contract may have"
        )));
    }
    Ok((name, bytes))
}

/// One byte more than allowed at most, so that an endless file ends.
fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
