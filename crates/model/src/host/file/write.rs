//! Writes a calibration as TOML. The most important values come first, and each section has a
//! comment.

use core::fmt::{self, Formatter};

use super::FORMAT;
use crate::Service;
use crate::channel::SendCosts;
use crate::host::{Calibration, ReceiveCharge, ReceiveCosts, Sampled, SendCharge, StepCharge};

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { host, run, switching, sending, receiving, .. } = self;
        let Self { figures, cache_refill, messages, arrivals, absent, .. } = self;
        writeln!(f, "# What this host's operations cost, measured by punctual calibrate.")?;
        writeln!(f, "# docs/calibrate.md says what each figure is.")?;
        writeln!(f, "format = {FORMAT}\n\n[host]")?;
        writeln!(f, "cpu_model = {}", Quoted(&host.cpu_model))?;
        writeln!(f, "kernel_release = {}", Quoted(&host.kernel_release))?;
        writeln!(f, "cpus = {}\n\n[run]", host.cpus)?;
        let (year, month, day) = run.date();
        writeln!(f, "at_unix_s = {} # {year:04}-{month:02}-{day:02}", run.at_unix_s)?;
        writeln!(f, "duration = \"{}\"", run.duration)?;
        writeln!(f, "version = {}\nquick = {}", Quoted(&run.version), run.quick)?;
        if let Some(stolen) = run.stolen {
            writeln!(f, "stolen = \"{stolen}\"")?;
        }
        if let Some(charge) = switching {
            writeln!(f, "\n# What admission charges twice a job: {}.", charge.context_switch())?;
            writeln!(f, "[switching]\nswitch = \"{}\"\nby = \"{}\"", charge.switch, charge.by)?;
            writeln!(f, "cache_refill = \"{}\"", charge.cache_refill)?;
            writeln!(f, "working_set = \"{}B\"", charge.working_set)?;
            writeln!(f, "percentile = \"{}\"", charge.percentile)?;
        }
        if let Some(charge) = sending {
            self::sending(f, charge)?;
        }
        if let Some(charge) = receiving {
            self::receiving(f, charge)?;
        }
        for figure in figures {
            writeln!(f, "\n[[figure]]\noperation = \"{}\"", figure.operation)?;
            sampled(f, &figure.sampled)?;
        }
        for refill in cache_refill {
            writeln!(f, "\n[[cache_refill]]\nworking_set = \"{}B\"", refill.working_set)?;
            sampled(f, &refill.sampled)?;
        }
        for message in messages {
            writeln!(f, "\n[[message]]\npacket = \"{}B\"", message.packet_bytes)?;
            writeln!(f, "packets_per_block = {}", message.packets_per_block)?;
            writeln!(f, "packets = {}", message.packets)?;
            sampled(f, &message.sampled)?;
        }
        for arrival in arrivals {
            writeln!(f, "\n[[arrival]]\npacket = \"{}B\"", arrival.packet_bytes)?;
            writeln!(f, "framing = \"{}\"", arrival.framing_name())?;
            writeln!(f, "packets = {}", arrival.packets)?;
            sampled(f, &arrival.sampled)?;
        }
        for absent in absent {
            writeln!(f, "\n[[absent]]\nwhat = {}", Quoted(&absent.what))?;
            writeln!(f, "why = {}", Quoted(&absent.why))?;
        }
        Ok(())
    }
}

fn sending(f: &mut Formatter<'_>, charge: &SendCharge) -> fmt::Result {
    let SendCosts { switch, cache, first_packet, packet, link_scheduling } = charge.costs;
    writeln!(f, "\n# What admission charges for the steps of sending.\n[sending]")?;
    steps(f, [switch, cache, first_packet, packet])?;
    writeln!(f, "link_scheduling = \"{link_scheduling}\"")?;
    covers(f, charge)
}

fn receiving(f: &mut Formatter<'_>, charge: &ReceiveCharge) -> fmt::Result {
    let ReceiveCosts { switch, cache, first_packet, packet } = charge.costs;
    let per_packet = charge.costs.per_packet();
    writeln!(f, "\n# What a packet that comes in is charged: {per_packet}.\n[receiving]")?;
    steps(f, [switch, cache, first_packet, packet])?;
    covers(f, charge)
}

fn steps(
    f: &mut Formatter<'_>,
    [switch, cache, first_packet, packet]: [Service; 4],
) -> fmt::Result {
    writeln!(f, "switch = \"{switch}\"\ncache = \"{cache}\"")?;
    writeln!(f, "first_packet = \"{first_packet}\"\npacket = \"{packet}\"")
}

fn covers<C>(f: &mut Formatter<'_>, charge: &StepCharge<C>) -> fmt::Result {
    if let Some(path) = &charge.path {
        writeln!(f, "path = {}", Quoted(path))?;
    }
    if let Some(bytes) = charge.largest_packet {
        writeln!(f, "largest_packet = \"{bytes}B\"")?;
    }
    if let Some(percentile) = charge.percentile {
        writeln!(f, "percentile = \"{percentile}\"")?;
    }
    Ok(())
}

fn sampled(f: &mut Formatter<'_>, sampled: &Sampled) -> fmt::Result {
    let Sampled { under, spread, discarded, stolen } = sampled;
    writeln!(f, "under = \"{}\"\nsamples = {}", under.name(), spread.samples())?;
    writeln!(f, "min = \"{}\"\np50 = \"{}\"", spread.min(), spread.p50())?;
    writeln!(f, "p99 = \"{}\"\nmax = \"{}\"", spread.p99(), spread.max())?;
    if *discarded > 0 || !stolen.is_zero() {
        writeln!(f, "discarded = {discarded}\nstolen = \"{stolen}\"")?;
    }
    Ok(())
}

/// A TOML basic string (TOML 1.0, "String").
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}
