//! Any bytes as files of /proc, /sys and control groups, in which other users' programs write parts
//! (their names, their groups): an answer or none; never a panic, nor memory beyond the text's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_broker::kernel::{limits, peer, usage};
use punctual_linux::bandwidth;
use punctual_linux::cgroup::{self, Hierarchy, Ids};
use punctual_linux::host::text;

fuzz_target!(|input: (u8, &[u8])| {
    let (pieces, bytes) = input;
    used(bytes);
    ids(pieces, bytes);
    let Ok(text) = str::from_utf8(bytes) else { return };
    of_processes(text);
    of_groups(text);
    of_the_host(text);
});

fn used(bytes: &[u8]) {
    let used = usage::parse_used(bytes);
    assert!(used.is_none() || bytes[0].is_ascii_digit() || bytes[0] == b'+');
    if let Some(used) = cgroup::parse_usage(bytes) {
        assert_eq!(used.as_nanos() % 1_000, 0);
    }
}

/// A list of ids says the same in any pieces, and no number that no line holds.
fn ids(pieces: u8, bytes: &[u8]) {
    let (mut whole, mut apart) = (Vec::new(), Vec::new());
    Ids::default().take(bytes, |id| whole.push(id.as_raw()));
    let mut reader = Ids::default();
    for piece in bytes.chunks(usize::from(pieces).max(1)) {
        reader.take(piece, |id| apart.push(id.as_raw()));
    }
    assert_eq!(whole, apart);
    let line = |line: &[u8]| str::from_utf8(line).ok()?.parse::<i32>().ok().filter(|id| *id > 0);
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    // The last has no end yet.
    lines.pop();
    let lines = lines.into_iter().filter(|line| line.iter().all(u8::is_ascii_digit));
    assert_eq!(whole, lines.filter_map(line).collect::<Vec<_>>());
}

fn of_processes(text: &str) {
    assert!(peer::users(text).len() <= text.len());
    assert!(peer::groups(text).len() <= text.len());
    let _ = limits::parse_limits(text);
    // A name in parentheses cannot move the fields behind it.
    let start = peer::parse_start(text);
    if !text.contains(')') {
        assert_eq!(start, None);
    }
    let behind = " S 1 7 7 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
    assert_eq!(peer::parse_start(&format!("7 ({text}){behind}")), Some(4711));
}

fn of_groups(text: &str) {
    for controller in [None, Some("cpu"), Some("freezer")] {
        if let Some(hierarchy) = Hierarchy::parse(text, controller) {
            assert_eq!(hierarchy.is_v1(), controller.is_some());
            let _ = (hierarchy.root(), hierarchy.is_whole());
        }
        if let Some(group) = cgroup::parse_group(text, controller) {
            assert!(!group.contains('\n'));
        }
    }
}

fn of_the_host(text: &str) {
    if let Some(cpus) = text::parse_cpu_list(text) {
        assert!(cpus.len() <= 1 << 16 && cpus.is_sorted_by(|a, b| a < b));
    }
    let _ = (text::parse_swaps(text), text::has_hypervisor_flag(text));
    let _ = (bandwidth::parse_account(text), text::preemption(text, Some(text)));
    if let Some(model) = text::cpu_model(text) {
        assert!(model.chars().count() <= 128 && !model.contains(char::is_control));
    }
    if let Some(ticks) = text::parse_stat(text) {
        assert!(ticks.stolen <= ticks.total);
    }
    let (budget, period) = text.split_once(' ').unwrap_or((text, "1000000"));
    let _ = text::parse_throttling(budget, period);
    let _ = text::parse_hrtick(text);
}
