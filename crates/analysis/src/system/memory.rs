//! The memory that programs keep.
//!
//! The kernel takes no page from a control group that uses no more than its `memory.min`
//! (cgroup-v2.rst), whatever all others need. So memory fits if the sum of what is promised is at most
//! what the host has for promises ([`HostProfile::memory`](punctual_model::HostProfile::memory)).

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use punctual_model::units::Bytes;

use super::System;
use super::entry::Executed;
use crate::entry::EntryKind;
use crate::offer::{Axis, Offer, Offers};
use crate::verdict::{Refusal, Resource, Shortfall};

pub(crate) const MEMORY: &str = "memory";

impl<Id: Copy + Ord> System<Id> {
    /// Returns the memory of all entries together.
    pub(crate) fn kept(&self) -> Bytes {
        let kept = self.entries.values().map(|entry| match entry.executed {
            Executed::Memory(Bytes(bytes)) => bytes,
            _ => 0,
        });
        Bytes(kept.fold(0, u64::saturating_add))
    }

    /// Refuses memory that is not left, and offers what is.
    pub(super) fn keep(&self, wanted: Bytes) -> Result<Executed, Box<Refusal>> {
        let Some(most) = self.host.memory else { return Ok(Executed::Memory(wanted)) };
        let left = Bytes(most.0.saturating_sub(self.kept().0));
        let short = wanted.0.saturating_sub(left.0);
        if short == 0 {
            return Ok(Executed::Memory(wanted));
        }
        let why = format!(
            "{wanted} are wanted and {left} of the {most} that may be promised are left: {} too few",
            Bytes(short)
        );
        let offer = Offer {
            entry: "".into(),
            kind: EntryKind::Command,
            axis: Axis::Memory,
            from: wanted.0,
            to: left.0,
        };
        Err(Box::new(Refusal {
            shortfall: Some(Shortfall::Bytes(short)),
            offers: Offers::found(Vec::from_iter((left.0 > 0).then_some(offer))),
            ..Refusal::new(MEMORY, Resource::Memory, why)
        }))
    }
}
