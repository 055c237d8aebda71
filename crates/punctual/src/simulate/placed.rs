//! Places a contract on a virtual host as admission decides, and runs it there.

use punctual_analysis::channel::egress::Egress;
use punctual_analysis::mapping::Mapping;
use punctual_analysis::{Grant, Refusal, admit, mapping};
use punctual_model::{Contract, HostProfile};

use super::channels::{Channels, Sending};
use super::cpus::{self, Watching};
use super::options::{Options, Overheads};
use super::presence::{self, Presence};
use super::receiving::Receiving;
use super::report::Report;
use super::streams::Streams;
use crate::host::{Chosen, Stamp};
use crate::{Failure, Remedy};

/// Returns the chosen host with as many CPUs as the contract asks for, because virtual ones cost
/// nothing, and with the switch costs that were asked for.
pub(super) fn host_of(
    contract: &Contract,
    chosen: &Chosen,
    overheads: Option<Overheads>,
) -> (HostProfile, Stamp) {
    let host = HostProfile { cpus: chosen.host.cpus.max(contract.cpus), ..chosen.host };
    let Some(overheads) = overheads else { return (host, chosen.stamp.clone()) };
    let costs = overheads.costs();
    let context_switch = costs.switch + costs.cache;
    let host = HostProfile { context_switch, wake_up: costs.wake_up, ..host };
    (host, chosen.stamp.clone().charging(&host))
}

/// A contract where admission placed it.
#[derive(Debug)]
pub(super) struct Placed {
    /// The expanded contract.
    pub(super) contract: Contract,
    /// The mappings of its streams.
    pub(super) mappings: Vec<Mapping>,
    pub(super) host: HostProfile,
    pub(super) answer: Result<Grant, Box<Refusal>>,
    /// The thread that sends, if anything is sent.
    pub(super) sender: Option<Sending>,
    /// `None` if everything is present all the time.
    pub(super) presence: Option<Presence>,
}

impl Placed {
    pub(super) fn of(
        contract: &Contract,
        host: HostProfile,
        options: &Options,
    ) -> Result<Self, Failure> {
        let answer = admit(&presence::first(contract, options), &host);
        let expanded = mapping::expand(contract, &host).map_err(Failure::from);
        let (contract, mappings) = expanded.map_err(|failure| in_no_way(&answer, failure))?;
        let sender = sender(&contract, &host).map_err(|failure| in_no_way(&answer, failure))?;
        let presence = Presence::of(options, &contract, &host)?;
        Ok(Self { contract, mappings, host, answer, sender, presence })
    }

    pub(super) fn receiving(&self, options: &Options) -> Result<Receiving, Failure> {
        Receiving::of(options, &self.contract, &self.host)
            .map_err(|failure| in_no_way(&self.answer, failure))
    }

    /// Refuses a contract that was refused without a placement of its work on CPUs.
    pub(super) fn is_placed(&self) -> Result<(), Failure> {
        match &self.answer {
            Err(refusal) if self.contract.cpus > 1 => {
                let why = format!(
                    "{refusal}; so nothing says what runs on which of its {} CPUs",
                    self.contract.cpus
                );
                Err(Failure::refused(&**refusal).reworded(why))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether channels run on `cpu`: they are on the last one.
    pub(super) fn has_channels(&self, cpu: u16) -> bool {
        cpu + 1 == self.contract.cpus
    }

    /// Runs it, CPU by CPU. The channels are on the last CPU, and no other CPU waits for it.
    pub(super) fn run(
        &self,
        options: &Options,
        watching: &mut dyn Watching,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let Self { contract, mappings, host, answer, sender, presence } = self;
        let streams = Streams::of(options, contract, mappings);
        // A command may be bound to a CPU beyond those of the contract.
        let of_commands = |grant: &Grant| grant.reservations.iter().map(|one| one.cpu + 1).max();
        let bound = answer.iter().filter_map(of_commands);
        for cpu in 0..bound.fold(contract.cpus, u16::max) {
            let on_cpu = match presence {
                None => cpus::on_cpu(cpu, contract, answer),
                Some(presence) => cpus::on_cpu_while(cpu, contract, answer, presence),
            };
            let mut sent = sender
                .as_ref()
                .filter(|_| self.has_channels(cpu))
                .map(|sender| Channels::of(options, contract, sender, &streams));
            let mut received = match self.has_channels(cpu) {
                true => self.receiving(options)?,
                false => Receiving::default(),
            };
            if !on_cpu.entries.is_empty() || sent.is_some() || !received.is_empty() {
                watching.turn_to(cpu, &on_cpu.subjects(cpu))?;
                let allowance = host.slot_allowance;
                let others = (&mut received, sent.as_mut(), &streams);
                let ran =
                    cpus::run(options, contract.policy, allowance, cpu, &on_cpu, others, watching);
                report.add(&on_cpu, cpu, &ran);
            }
            report.receiving.extend(received.outcomes(cpu));
            if let Some(sent) = sent {
                report.channels = sent.outcomes(answer);
            }
        }
        report.streams = streams.outcomes(options, answer.as_ref().ok());
        if let Some(Presence { joined, left, .. }) = presence {
            (report.joined, report.left) = (joined.clone(), left.clone());
        }
        Ok(())
    }
}

/// Returns the error for work that there is no way to run. If admission refuses it, the refusal is
/// the better explanation.
fn in_no_way(answer: &Result<Grant, Box<Refusal>>, failure: Failure) -> Failure {
    match answer {
        Err(refusal) => Failure::refused(&**refusal),
        Ok(_) => failure,
    }
}

fn sender(contract: &Contract, host: &HostProfile) -> Result<Option<Sending>, Failure> {
    if contract.channels.is_empty() {
        return Ok(None);
    }
    let sender = contract.sender.and_then(|spec| Some((spec, spec.sender(host.send_costs)?)));
    let Some((spec, sender)) = sender else {
        return Err(Failure::bad_input(
            "the costs of sending are not known; write [sending.costs] into the contract, or measure them",
        )
        .with(Remedy::Calibrate(None)));
    };
    let egress = Egress::of(&spec, sender.costs, host.wake_up).map_err(Failure::bad_input)?;
    Ok(Some(Sending { egress, best_effort: sender.best_effort }))
}
