//! Probes of what this host can promise, as plain data without judgement.
//!
//! No probe here needs privilege. What cannot be read is `None`, and measured values say how they
//! were measured. [`text`] has the parsers of the kernel's texts.

mod bandwidth;
mod clocks;
mod identity;
mod machine;
mod privileges;
mod realtime;
mod steal;
mod user;

/// The parsers of the kernel's texts. They are pure, take any text, and refuse rather than panic.
pub mod text {
    pub use super::bandwidth::parse_account;
    pub use super::identity::cpu_model;
    pub use super::machine::{has_hypervisor_flag, parse_cpu_list, parse_swaps, preemption};
    pub use super::realtime::{parse_hrtick, parse_throttling};
    pub use super::steal::{Ticks, parse_stat};
}

pub use bandwidth::{Bandwidth, bandwidth_left, largest_budget};
pub use clocks::{Clocks, clocks};
pub use identity::identity;
pub use machine::{Machine, Virtualisation, cpus_online, machine, possible_cpus};
pub use privileges::{Capabilities, Privileges, has_cap_sys_nice, privileges};
pub use realtime::{
    FairServer, RtGroup, Throttling, deadline_limits, ends_budgets_on_time, fair_servers, rt_group,
    throttling,
};
pub use steal::{Steal, steal_over, stolen};
pub use user::is_root;

use std::fs;
use std::path::Path;

/// Returns the text of a small file without the white space around it; `None` if it cannot be read.
fn read_trimmed(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the number in a file that contains nothing else.
fn read_number<N: std::str::FromStr>(path: impl AsRef<Path>) -> Option<N> {
    read_trimmed(path)?.parse().ok()
}
