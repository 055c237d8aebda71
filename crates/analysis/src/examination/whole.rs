//! The contract with what its streams became, and who sends.

use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::vec::Vec;

use punctual_model::channel::Sender;
use punctual_model::{Contract, HostProfile};

use super::Failure;
use crate::knobs::Entry;
use crate::mapping::{self, ExpandError, Mapping, MappingError};
use crate::verdict::Resource;

pub(super) struct Whole<'a> {
    contract: Cow<'a, Contract>,
    pub(super) mappings: Vec<Mapping>,
    /// There is one wherever there are channels.
    pub(super) sender: Option<Sender>,
    /// How many tasks and channels were declared; the others are those of the streams, in order.
    declared: (usize, usize),
}

impl<'a> Whole<'a> {
    pub(super) fn of(contract: &'a Contract, host: &HostProfile) -> Result<Self, Failure> {
        let declared = (contract.tasks.len(), contract.channels.len());
        let sender = contract.sender.and_then(|sender| sender.sender(host.send_costs));
        let sends = !contract.channels.is_empty() || !contract.streams.is_empty();
        if sends && sender.is_none() {
            return Err(no_costs());
        }
        if contract.streams.is_empty() {
            let contract = Cow::Borrowed(contract);
            return Ok(Self { contract, mappings: Vec::new(), sender, declared });
        }
        match mapping::expand(contract, host) {
            Ok((expanded, mappings)) => {
                Ok(Self { contract: Cow::Owned(expanded), mappings, sender, declared })
            }
            Err(error) => Err(Failure {
                test: "stream-mapping",
                resource: missing(&error),
                entry: stream_of(contract, &error),
                shortfall: None,
                why: error.to_string(),
            }),
        }
    }

    pub(super) fn contract(&self) -> &Contract {
        &self.contract
    }

    /// How many channels are not those of streams.
    pub(super) fn declared_channels(&self) -> usize {
        self.declared.1
    }

    /// Who declared the task at this position.
    pub(super) fn task(&self, at: usize) -> Entry {
        match at.checked_sub(self.declared.0) {
            Some(stream) => Entry::Stream(stream),
            None => Entry::Task(at),
        }
    }

    /// Who declared the channel at this position.
    pub(super) fn channel(&self, at: usize) -> Entry {
        match at.checked_sub(self.declared.1) {
            Some(stream) => Entry::Stream(stream),
            None => Entry::Channel(at),
        }
    }
}

/// What a stream that cannot be mapped lacks.
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

fn no_costs() -> Failure {
    let why = "what sending costs on this host is not known: measure it by `punctual calibrate`, or \
               write it into [sending.costs]";
    Failure {
        test: "send-costs",
        resource: Resource::Costs,
        entry: None,
        shortfall: None,
        why: why.to_string(),
    }
}
