//! Touches memory, to see whether it stays where it is.
//!
//! `pages touch FILE PERIOD SECONDS` maps a file and owns as much memory, touches each page of both
//! once, and then in each period again: it prints how many of these touches were major faults.
//! `pages hog BYTES` owns so much memory and touches it until it is ended.
//! Exit codes: 1 a page was gone, 2 bad usage.
#![allow(unsafe_code)]

use std::error::Error;
use std::fs::File;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use punctual_linux::clock;
use punctual_linux::mapping::Mapping;
use punctual_model::Duration;
use punctual_model::units::parse_bytes;
use rustix::mm::MapFlags;

/// The bytes of a page, or a whole part of them.
const PAGE: usize = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let gone = match arguments[..] {
        ["touch", file, period, seconds] => touch(file, period, seconds),
        ["hog", bytes] => hog(bytes),
        _ => Err("one of: touch FILE PERIOD SECONDS, hog BYTES".into()),
    };
    match gone {
        Ok(gone) => ExitCode::from(u8::from(gone > 0)),
        Err(error) => {
            eprintln!("pages: {error}");
            ExitCode::from(2)
        }
    }
}

fn touch(file: &str, period: &str, seconds: &str) -> Result<u64, Box<dyn Error>> {
    let (period, seconds): (Duration, u64) = (period.parse()?, seconds.parse()?);
    let file = File::open(file)?;
    let bytes = usize::try_from(file.metadata()?.len())?;
    let mapped = Mapping::of(&file, 0, bytes, false, MapFlags::empty())?;
    let own = Mapping::anonymous(bytes, MapFlags::PRIVATE)?;
    let touch_all = || {
        read_each(&mapped);
        write_each(&own);
    };
    touch_all();
    let before = major_faults()?;
    println!("pages: {} touched, {before} major faults at first", 2 * bytes / PAGE);
    let mut next = clock::now();
    let end = next + Duration::from_secs(seconds);
    while next < end {
        next += period;
        clock::sleep_until(next);
        touch_all();
    }
    let gone = major_faults()? - before;
    println!("pages: {gone} major faults afterwards");
    Ok(gone)
}

fn hog(bytes: &str) -> Result<u64, Box<dyn Error>> {
    // More than the machine has is wanted.
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let own = Mapping::anonymous(usize::try_from(parse_bytes(bytes)?)?, flags)?;
    loop {
        write_each(&own);
    }
}

fn read_each(memory: &Mapping) {
    // SAFETY: the file keeps its length, and the words are only loaded.
    for word in unsafe { memory.words() }.iter().step_by(PAGE / 8) {
        std::hint::black_box(word.load(Ordering::Relaxed));
    }
}

fn write_each(memory: &Mapping) {
    // SAFETY: the memory is anonymous and writable.
    for word in unsafe { memory.words() }.iter().step_by(PAGE / 8) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the major faults of this process so far (proc_pid_stat(5), field 12).
fn major_faults() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').ok_or("no stat")?.1;
    Ok(fields.split_whitespace().nth(9).ok_or("no faults")?.parse()?)
}
