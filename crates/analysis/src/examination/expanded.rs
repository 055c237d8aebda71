//! A contract with its streams expanded, and its sender.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use punctual_model::channel::Sender;
use punctual_model::{Contract, HostProfile, Service};

use super::Failure;
use crate::channel::egress::Egress;
use crate::entry::Entry;
use crate::mapping::{self, ExpandError, Mapping, MappingError};
use crate::verdict::Resource;

pub(super) struct Expanded<'a> {
    contract: Cow<'a, Contract>,
    pub(super) mappings: Vec<Mapping>,
    /// Present if there are channels, together with its egress scheduler.
    pub(super) sender: Option<Sender>,
    pub(super) egress: Option<Egress>,
    /// The cost of an incoming packet, or the cost of an outgoing one if only that is known. It is
    /// known if any receiving channel has a promise to its sender.
    pub(super) received_packet: Option<Service>,
    /// The numbers of declared tasks and channels; the rest belong to the streams, in order.
    declared: (usize, usize),
}

impl<'a> Expanded<'a> {
    pub(super) fn of(contract: &'a Contract, host: &HostProfile) -> Result<Self, Failure> {
        let declared = (contract.tasks.len(), contract.channels.len());
        let sender = contract.sender.and_then(|sender| sender.sender(host.send_costs));
        let sends = !contract.channels.is_empty() || !contract.streams.is_empty();
        if sends && sender.is_none() {
            return Err(no_costs("send-costs", "sending"));
        }
        // No contract has a link that is too slow.
        let egress = contract.sender.zip(sender);
        let egress =
            egress.and_then(|(spec, sender)| Egress::of(&spec, sender.costs, host.wake_up).ok());
        let received_packet = host
            .receive_costs
            .map(|costs| costs.per_packet())
            .or_else(|| Some(sender?.costs.per_packet()));
        let receives = contract.receiving.iter().any(|channel| channel.delay_bound.is_some());
        if receives && received_packet.is_none() {
            return Err(no_costs("receive-costs", "receiving"));
        }
        let (contract, mappings) = if contract.streams.is_empty() {
            (Cow::Borrowed(contract), Vec::new())
        } else {
            let (expanded, mappings) =
                mapping::expand(contract, host).map_err(|error| Failure {
                    test: "stream-mapping",
                    resource: missing(&error),
                    entry: stream_of(contract, &error),
                    shortfall: None,
                    why: error.to_string(),
                })?;
            (Cow::Owned(expanded), mappings)
        };
        Ok(Self { contract, mappings, sender, egress, received_packet, declared })
    }

    pub(super) fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Returns how many channels do not belong to streams.
    pub(super) fn declared_channels(&self) -> usize {
        self.declared.1
    }

    /// Returns the entry that declared the task at this position.
    pub(super) fn task(&self, at: usize) -> Entry {
        match at.checked_sub(self.declared.0) {
            Some(stream) => Entry::Stream(stream),
            None => Entry::Task(at),
        }
    }

    /// Returns the entry that declared the channel at this position.
    pub(super) fn channel(&self, at: usize) -> Entry {
        match at.checked_sub(self.declared.1) {
            Some(stream) => Entry::Stream(stream),
            None => Entry::Channel(at),
        }
    }
}

/// Returns the resource that a stream lacks if it cannot be mapped.
fn missing(error: &ExpandError) -> Resource {
    match error {
        ExpandError::Stream { why: MappingError::FramesTooFast { .. }, .. } => Resource::Cpu,
        ExpandError::NoSender | ExpandError::NoCosts => Resource::Costs,
        ExpandError::Stream { .. } | ExpandError::NameTaken { .. } => Resource::Delay,
    }
}

fn stream_of(contract: &Contract, error: &ExpandError) -> Option<Entry> {
    let (ExpandError::Stream { stream: name, .. } | ExpandError::NameTaken { stream: name, .. }) =
        error
    else {
        return None;
    };
    contract.streams.iter().position(|stream| stream.name() == name).map(Entry::Stream)
}

fn no_costs(test: &'static str, what: &str) -> Failure {
    let why = format!(
        "what {what} costs on this host is not known: measure it, or write what sending costs into \
         [sending.costs], below [sending]"
    );
    Failure { test, resource: Resource::Costs, entry: None, shortfall: None, why }
}
