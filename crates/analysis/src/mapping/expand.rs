//! Expansion of a contract: its streams become upcalls and channels.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile, Stream, Task};
use thiserror::Error;

use super::{Mapping, MappingError, map};

/// The reason why the streams of a contract could not be mapped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpandError {
    /// The contract has no `[sending]`. Parsed contracts always have one.
    #[error("the contract has streams but does not say how this host sends")]
    NoSender,
    /// Neither the contract nor the host's profile has sending costs.
    #[error(
        "the costs of sending are not known; write [sending.costs] into the contract, or measure them"
    )]
    NoCosts,
    /// An upcall or channel of a stream needs a name that is taken. Parsed contracts that were not
    /// expanded do not cause this.
    #[error("stream \"{stream}\" needs the name \"{name}\", which another entry has")]
    NameTaken {
        /// The stream.
        stream: String,
        /// The name of its upcall or its channel.
        name: String,
    },
    /// A stream has no mapping.
    #[error("stream \"{stream}\": {why}")]
    Stream {
        /// The stream.
        stream: String,
        /// The reason.
        why: MappingError,
    },
}

/// Returns `contract` with an upcall and a channel for each stream, after its declared ones, and
/// their mappings. The streams stay in it, so that the origin of an entry can be named. An expanded
/// contract cannot be expanded again.
///
/// Under `fp` the upcalls come last, in the order of their streams.
pub fn expand(
    contract: &Contract,
    host: &HostProfile,
) -> Result<(Contract, Vec<Mapping>), ExpandError> {
    let mut expanded = contract.clone();
    if contract.streams.is_empty() {
        return Ok((expanded, Vec::new()));
    }
    let sender = contract.sender.ok_or(ExpandError::NoSender)?;
    let sender = sender.sender(host.send_costs).ok_or(ExpandError::NoCosts)?;
    let mut names: BTreeSet<String> = names_of(contract).map(String::from).collect();
    let mut mappings = Vec::with_capacity(contract.streams.len());
    for stream in &contract.streams {
        for name in [stream.name().into(), Stream::channel_name_of(stream.name())] {
            if !names.insert(name.clone()) {
                return Err(ExpandError::NameTaken { stream: stream.name().into(), name });
            }
        }
        let mapping = map(stream, &sender, host.context_switch)
            .map_err(|why| ExpandError::Stream { stream: stream.name().into(), why })?;
        expanded.tasks.push(Task::from(&mapping.upcall));
        expanded.upcalls.push(mapping.upcall.clone());
        expanded.channels.push(mapping.channel.clone());
        mappings.push(mapping);
    }
    Ok((expanded, mappings))
}

/// Returns the names of all entries but streams; upcalls are among the tasks.
fn names_of(contract: &Contract) -> impl Iterator<Item = &str> {
    let tasks = contract.tasks.iter().map(Task::name);
    let reservations = contract.reservations.iter().map(|named| named.name.as_str());
    let channels = contract.channels.iter().map(|channel| channel.name());
    let best_effort = contract.best_effort.iter().map(|channel| channel.name.as_str());
    tasks.chain(reservations).chain(channels).chain(best_effort)
}
