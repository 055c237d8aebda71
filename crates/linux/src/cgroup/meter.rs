//! What a group used of the processor, read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use punctual_model::time::Service;

/// Processor time of a group's members, also those that have ended.
#[derive(Debug)]
pub struct Meter {
    file: File,
}

impl Meter {
    /// Of the group with this folder; none in version 1.
    pub(super) fn open(group: &Path) -> Option<Self> {
        let meter = Self { file: File::open(group.join("cpu.stat")).ok()? };
        meter.read().map(|_| meter)
    }

    /// To a microsecond. What a thread on another CPU uses at this moment counts from its next tick
    /// or switch on. Allocates nothing.
    pub fn read(&self) -> Option<Service> {
        let mut text = [0; 64];
        let read = self.file.read_at(&mut text, 0).ok()?;
        parse_usage(text.get(..read)?)
    }
}

/// Reads the first line of cpu.stat, by its documentation (cgroup-v2.rst) always there. Allocates
/// nothing.
pub fn parse_usage(stat: &[u8]) -> Option<Service> {
    let number = stat.strip_prefix(b"usage_usec ")?.split(|&byte| byte == b'\n').next()?;
    let micros: u64 = str::from_utf8(number).ok()?.trim_ascii_end().parse().ok()?;
    micros.checked_mul(1_000).map(Service::from_nanos)
}
