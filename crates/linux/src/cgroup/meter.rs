//! Repeated reading of the processor time of a group.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use punctual_model::time::Service;

/// The processor time of a group's members, including those that have ended.
#[derive(Debug)]
pub struct Meter {
    file: File,
}

impl Meter {
    /// Opens the meter of the group with this directory; `None` in version 1.
    pub(super) fn open(group: &Path) -> Option<Self> {
        let meter = Self { file: File::open(group.join("cpu.stat")).ok()? };
        meter.read().map(|_| meter)
    }

    /// Returns the processor time, to a microsecond. What a thread on another CPU uses right now
    /// counts only from its next tick or switch. Allocates nothing.
    pub fn read(&self) -> Option<Service> {
        let mut text = [0; 64];
        let read = self.file.read_at(&mut text, 0).ok()?;
        parse_usage(text.get(..read)?)
    }
}

/// Parses the first line of cpu.stat, which is always there according to its documentation
/// (cgroup-v2.rst). Allocates nothing.
pub fn parse_usage(stat: &[u8]) -> Option<Service> {
    let number = stat.strip_prefix(b"usage_usec ")?.split(|&byte| byte == b'\n').next()?;
    let micros: u64 = str::from_utf8(number).ok()?.trim_ascii_end().parse().ok()?;
    micros.checked_mul(1_000).map(Service::from_nanos)
}
