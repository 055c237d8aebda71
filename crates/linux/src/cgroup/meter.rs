//! What a group used of the processor, read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

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
    pub fn read(&self) -> Option<punctual_model::time::Service> {
        let mut text = [0; 64];
        let read = self.file.read_at(&mut text, 0).ok()?;
        // The first line, by its documentation (cgroup-v2.rst, cpu.stat) always there.
        let number = text.get(..read)?.strip_prefix(b"usage_usec ")?;
        let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
        let micros = digits.fold(0u64, |so_far, digit| {
            so_far.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
        });
        Some(punctual_model::time::Service::from_micros(micros))
    }
}
