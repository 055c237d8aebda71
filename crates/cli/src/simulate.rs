//! `punctual simulate`: a contract under its own policy, in virtual time.

mod arrivals;
mod channels;
mod cpus;
mod entries;
mod faults;
mod options;
mod perfetto;
mod receiving;
mod report;
mod steps;
mod streams;
mod text;
mod traces;
mod witness;

use std::path::Path;

use punctual_analysis::channel::egress::Egress;
use punctual_analysis::mapping::Mapping;
use punctual_analysis::{Grant, Refusal, admit, mapping};
use punctual_model::{Contract, HostProfile, Instant, Policy};

use punctual::contract::Declared;

use crate::contract_file;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use entries::OnCpu;
use punctual::host::{Chosen, Stamp};
use report::Report;
use traces::Traces;

use channels::{Channels, Sending};
pub(crate) use options::Args;
use options::Overheads;
use receiving::Receiving;
use streams::Streams;

pub(crate) fn main(args: &Args) -> Outcome {
    let Declared { contract, notes, text } = contract_file::read(&args.contract)?;
    if args.high_jobs.is_some() && contract.policy != Policy::EdfVd {
        return Err(Failure::bad_input(format!(
            "--high-jobs: there are two criticalities under policy = \"edf-vd\" alone, and this is \"{}\"",
            contract.policy.name()
        )));
    }
    for flood in &args.flood {
        let mut streams = contract.streams.iter().map(|stream| stream.name());
        let mut channels = contract.channels.iter().map(|channel| channel.name());
        let mut receiving = contract.receiving.iter().map(|channel| &channel.name[..]);
        let is_flood = |name: &str| name == flood.name;
        if !(streams.any(is_flood) || channels.any(is_flood) || receiving.any(is_flood)) {
            return Err(Failure::bad_input(format!(
                "--flood: \"{}\" is no channel and no stream of this contract",
                flood.name
            )));
        }
    }
    let (args, host, stamp) = &chosen(args, &contract)?;
    let answer = admit(&contract, host);
    // Of what can be run in no way, the refusal says why.
    let in_no_way = |failure| match &answer {
        Err(refusal) => refused(args, refusal, ""),
        Ok(_) => failure,
    };
    let expanded = mapping::expand(&contract, host).map_err(Failure::bad_input);
    let (contract, mappings) = expanded.map_err(in_no_way)?;
    let sender = sender(&contract, host).map_err(in_no_way)?;
    if args.witness {
        return witness::main(args, &contract, &text, host, &answer, stamp, notes);
    }
    let received = Receiving::of(args, &contract, host).map_err(in_no_way)?;
    steps::bounded(args, &contract, sender.as_ref(), &received)?;
    let mut report = Report::new(args, answer.is_ok(), stamp.clone(), notes);
    let mut traces = Traces::of(args, &text)?;
    let placed = Placed { contract: &contract, mappings: &mappings, host, answer: &answer };
    placed.run(args, sender.as_ref(), &mut traces, &mut report)?;
    traces.finish(Instant::ZERO + args.until, host, stamp)?;
    let page = if args.json {
        // Cannot fail: no map with keys that are not text, no writer.
        serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
    } else {
        text::page(&report, hint(args, &contract, &report).as_deref())
    };
    output::print(&page)?;
    Ok(if report.broken() > 0 { Exit::Refused } else { Exit::Kept })
}

/// Says by the name of its file that a contract is refused, and what follows from that.
fn refused(args: &Args, refusal: &Refusal, and: &str) -> Failure {
    Failure::Refused(format!("{}: {refusal}{and}", punctual::contract::name_of(&args.contract)))
}

/// The host of `punctual admit` with as many CPUs as the contract asks for, because virtual ones
/// cost nothing, and with the costs asked for; else those measured, which the run then pays too,
/// where it can pay any.
fn chosen(args: &Args, contract: &Contract) -> Result<(Args, HostProfile, Stamp), Failure> {
    let Chosen { host, charge, stamp, .. } = args.profile.choose()?;
    let host = HostProfile { cpus: host.cpus.max(contract.cpus), ..host };
    if let Some(overheads) = args.overheads {
        let costs = overheads.costs();
        let context_switch = costs.switch + costs.cache;
        let host = HostProfile { context_switch, wake_up: costs.wake_up, ..host };
        return Ok((args.clone(), host, stamp.charging(&host)));
    }
    // The search for a witness knows free switches alone.
    let overheads =
        charge.filter(|_| !args.witness).map(|charge| Overheads::of(charge, host.wake_up));
    Ok((args.clone().paying(overheads), host, stamp))
}

/// Who sends, if anything is sent.
fn sender(contract: &Contract, host: &HostProfile) -> Result<Option<Sending>, Failure> {
    if contract.channels.is_empty() {
        return Ok(None);
    }
    let sender = contract.sender.and_then(|spec| Some((spec, spec.sender(host.send_costs)?)));
    let Some((spec, sender)) = sender else {
        return Err(Failure::bad_input(
            "the costs of sending are not known; measure them by `punctual calibrate`, or write \
             [sending.costs] into the contract",
        ));
    };
    let egress = Egress::of(&spec, sender.costs, host.wake_up).map_err(Failure::bad_input)?;
    Ok(Some(Sending { egress, best_effort: sender.best_effort }))
}

/// A contract where admission placed it.
struct Placed<'a> {
    contract: &'a Contract,
    /// What its streams became.
    mappings: &'a [Mapping],
    host: &'a HostProfile,
    answer: &'a Result<Grant, Box<Refusal>>,
}

impl Placed<'_> {
    /// Runs it, CPU by CPU: the last is that of the channels, which no other waits for.
    fn run(
        &self,
        args: &Args,
        sender: Option<&Sending>,
        traces: &mut Traces,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let Self { contract, mappings, host, answer } = *self;
        entries::unplaced(args, contract, answer)?;
        let streams = Streams::of(args, contract, mappings);
        // A command may be bound to a CPU beyond those of the contract.
        let bound = answer.iter().flat_map(|grant| &grant.timetables).map(|table| table.cpu + 1);
        for cpu in 0..bound.fold(contract.cpus, u16::max) {
            let on_cpu = entries::on_cpu(cpu, contract, answer);
            let mut sent = sender
                .filter(|_| entries::has_channels(contract, cpu))
                .map(|sender| Channels::of(args, contract, sender, &streams));
            let mut received = match entries::has_channels(contract, cpu) {
                true => Receiving::of(args, contract, host)?,
                false => Receiving::default(),
            };
            if !on_cpu.entries.is_empty() || sent.is_some() || !received.is_empty() {
                traces.turn_to(cpu, &on_cpu)?;
                let allowance = host.slot_allowance;
                let others = (&mut received, sent.as_mut(), &streams);
                let ran = cpus::run(args, contract.policy, allowance, cpu, &on_cpu, others, traces);
                add(report, &on_cpu, cpu, &ran);
            }
            report.receiving.extend(received.outcomes(cpu));
            if let Some(sent) = sent {
                report.channels = sent.outcomes(answer);
            }
        }
        report.streams = streams.outcomes(args, answer.as_ref().ok());
        Ok(())
    }
}

fn add(report: &mut Report, on_cpu: &OnCpu, cpu: u16, ran: &cpus::Ran) {
    for (entry, seen) in on_cpu.entries.iter().zip(ran.summary.tasks()) {
        report.add(entry, cpu, seen);
    }
    report.faults.struck.add(ran.struck);
}

/// Refused, and yet nothing was late: that alone does not show why.
fn hint(args: &Args, contract: &Contract, report: &Report) -> Option<String> {
    let searchable = contract.channels.is_empty() && contract.receiving.is_empty();
    let searchable = searchable && contract.cpus == 1;
    if report.admitted || report.broken() > 0 || !searchable || contract.tasks.is_empty() {
        return None;
    }
    let again = if args.contract == Path::new("-") {
        "--witness".to_owned()
    } else {
        format!("punctual simulate --witness {}", args.contract.display())
    };
    Some(format!("refused, and no job was late here; search a schedule with one: {again}"))
}

#[cfg(test)]
mod tests;
