//! Turns the raw contract into a valid one: `fields` reads single values; `work` makes tasks,
//! upcalls, reservations and the programs to start, `sender` the sending host and the streams,
//! `channels` the traffic and its addresses.

mod channels;
mod fields;
mod sender;
mod work;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use toml::Spanned;

use super::raw::{RawChannel, RawContract, RawSystem};
use super::{Contract, MAX_CPUS, MAX_ENTRIES, Policy};
use crate::text_file::{self, Checked, choice, problem};
use crate::{FileError, Task, Upcall};
use channels::Channels;

impl Contract {
    /// Parses and validates the bytes of a contract. `file` only appears in messages.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        text_file::parse(file, "contract", bytes, validate)
    }
}

fn validate(raw: RawContract) -> Checked<Contract> {
    let (policy, cpus) = validate_system(&raw.system)?;
    check_entries(&raw)?;
    let RawContract { task, upcall, reservation, sending, channel, stream, command, .. } = raw;

    let mut names = BTreeSet::new();
    // Tasks and upcalls stay in file order, because file order has a meaning under `fp`.
    let mut in_order: Vec<(usize, Task)> = Vec::with_capacity(task.len() + upcall.len());
    for entry in task {
        let offset = entry.span().start;
        in_order.push((offset, work::task(entry.into_inner(), policy, &mut names)?));
    }
    let mut upcalls: Vec<Upcall> = Vec::with_capacity(upcall.len());
    for entry in upcall {
        let offset = entry.span().start;
        let upcall = work::upcall(entry.into_inner(), &mut names)?;
        in_order.push((offset, Task::from(&upcall)));
        upcalls.push(upcall);
    }
    in_order.sort_by_key(|(offset, _)| *offset);
    let reservations = reservation
        .into_iter()
        .map(|entry| work::reservation(entry.into_inner(), &mut names))
        .collect::<Checked<Vec<_>>>()?;

    let mut sending = sending;
    let least = sending.as_mut().and_then(|sending| sending.get_mut().best_effort_min.take());
    let sender = sending.map(sender::sender).transpose()?;
    let packet = sender.map(|sender| sender.packetisation.packet_bytes());
    let Channels { promised, best_effort, receiving, routes } =
        channels::channels(channel, packet, &mut names)?;
    let streams = stream
        .into_iter()
        .map(|entry| sender::stream(entry.into_inner(), &mut names))
        .collect::<Checked<Vec<_>>>()?;

    let commands = work::commands(command, &reservations, (&promised, &routes), &mut names)?;

    let tasks = in_order.into_iter().map(|(_, task)| task).collect();
    Ok(Contract {
        upcalls,
        reservations,
        sender: sender
            .map(|sender| sender::with_best_effort(sender, least.as_ref(), &best_effort))
            .transpose()?,
        channels: promised,
        best_effort,
        receiving,
        routes,
        streams,
        commands,
        ..Contract::of_tasks(policy, cpus, tasks)
    })
}

/// Checks that the number of entries is within bounds, and that there is a sender if anything is
/// sent.
fn check_entries(raw: &RawContract) -> Checked<()> {
    fn starts<T>(entries: &[Spanned<T>]) -> impl Iterator<Item = usize> {
        entries.iter().map(|entry| entry.span().start)
    }
    let sending = starts(&raw.channel).chain(starts(&raw.stream));
    let sends = |entry: &&Spanned<RawChannel>| channels::sends(entry.get_ref());
    let first_channel = raw.channel.iter().find(sends).map(|entry| entry.span().start);
    let computing = starts(&raw.task).chain(starts(&raw.upcall)).chain(starts(&raw.reservation));
    let computing = computing.chain(starts(&raw.command));
    let mut places: Vec<usize> = computing.chain(sending).collect();
    places.sort_unstable();
    if places.is_empty() {
        return problem(
            0..0,
            "the contract declares nothing; write at least one [[task]], [[upcall]], \
             [[reservation]], [[channel]], [[stream]] or [[command]]",
        );
    }
    if let Some(&offset) = places.get(MAX_ENTRIES) {
        return problem(
            offset..offset,
            format!(
                "this is entry {} of {}; a contract may declare at most {MAX_ENTRIES}: split it",
                MAX_ENTRIES + 1,
                places.len()
            ),
        );
    }
    let first_to_send = first_channel.into_iter().chain(starts(&raw.stream)).min();
    if let (Some(offset), None) = (first_to_send, &raw.sending) {
        return problem(
            offset..offset,
            "channels and streams need to know how this host sends; write [sending] with \
             bandwidth and packet",
        );
    }
    Ok(())
}

fn validate_system(raw: &RawSystem) -> Checked<(Policy, u16)> {
    let policy = match &raw.policy {
        None => Policy::Rmdp,
        Some(named) => choice("policy", named, &Policy::NAMES)?,
    };
    let cpus = match &raw.cpus {
        None => 1,
        Some(count) => match u16::try_from(*count.get_ref()) {
            Ok(cpus @ 1..=MAX_CPUS) => cpus,
            _ => {
                let given = count.get_ref();
                return problem(
                    count.span(),
                    format!("cpus is {given}; it must be from 1 to {MAX_CPUS}"),
                );
            }
        },
    };
    Ok((policy, cpus))
}
