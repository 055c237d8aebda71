//! Reading files of /proc and /sys: long ones with few system calls, and those of one value.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::str::FromStr;

/// Reads a file of /proc as text.
///
/// These files claim to be empty, so [`std::fs::read_to_string`] begins with 32 bytes and doubles:
/// eleven system calls for /proc/PID/status. This makes four.
///
/// # Errors
/// If the file cannot be opened or read, or is not text.
///
/// # Examples
/// ```
/// let status = punctual_linux::procfs::text("/proc/self/status")?;
/// assert!(status.starts_with("Name:"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the text of a small file without the white space around it; `None` if it cannot be read.
pub(crate) fn trimmed(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the number in a file that contains nothing else.
pub(crate) fn number<N: FromStr>(path: impl AsRef<Path>) -> Option<N> {
    trimmed(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_longer_than_the_buffer_are_whole() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let long = "line\n".repeat(5_000);
        std::fs::write(file.path(), &long).expect("ours");
        assert_eq!(text(file.path()).expect("is there"), long);
        assert!(text("/proc/self/none").is_err());
    }
}
