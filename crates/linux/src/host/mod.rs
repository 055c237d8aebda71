//! Probes of what this host can promise, as plain data without judgement.
//!
//! No probe here needs privilege. What cannot be read is `None`, and measured values say how they
//! were measured. [`text`] has the parsers of the kernel's texts.

mod machine;
mod privileges;
mod realtime;
mod steal;

/// The parsers of the kernel's texts. They are pure, take any text, and refuse rather than panic.
pub mod text {
    pub use super::machine::{
        cpu_model, has_hypervisor_flag, parse_cpu_list, parse_swaps, preemption,
    };
    pub use super::realtime::{parse_hrtick, parse_throttling};
    pub use super::steal::{Ticks, parse_stat};
}

pub use machine::{
    Clocks, Machine, Virtualisation, clocks, cpus_online, identity, is_preempt_rt, machine, memory,
    possible_cpus,
};
pub use privileges::{Capabilities, Privileges, has_cap_sys_nice, is_root, privileges};
pub use realtime::{
    FairServer, KernelLimits, RtGroup, Throttling, deadline_limits, ends_budgets_on_time,
    fair_servers, rt_group, throttling,
};
pub use steal::{Steal, steal_over, stolen};
