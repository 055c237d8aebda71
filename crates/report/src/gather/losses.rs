//! Collects what is missing in a trace.

use std::collections::BTreeMap;

use punctual_model::Instant;
use punctual_trace::file::{Damage, Gap};

/// The number of losses and damages that are listed. Further ones are only counted.
const MOST: usize = 200;

/// The missing parts of a trace.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The instants at which losses were noticed, and the numbers of lost events.
    pub(crate) lost: Vec<(Instant, u64)>,
    /// The number of all lost events.
    pub(crate) events: u64,
    /// The number of blocks that report losses.
    pub(crate) times: u64,
    /// The offset of each damage, its kind, and the number of bytes it cost.
    pub(crate) damaged: Vec<(u64, Damage, u64)>,
    /// The number of all damages.
    pub(crate) damages: u64,
    /// The number of all damaged bytes.
    pub(crate) damaged_bytes: u64,
    /// The numbers of missing blocks, as far as later blocks tell, and of events in them.
    pub(crate) missing_blocks: u64,
    pub(crate) missing_events: u64,
    /// For each unknown kind of block, the number of blocks and of bytes.
    pub(crate) unknown: BTreeMap<u8, (u64, u64)>,
    /// The bytes of an incomplete block at the end of the file.
    pub(crate) unfinished_bytes: u64,
    /// The number of events of subjects beyond the limit.
    pub(crate) unlisted_events: u64,
}

impl Losses {
    pub(crate) fn lost(&mut self, at: Instant, events: u64) {
        self.events = self.events.saturating_add(events);
        self.times += 1;
        if self.lost.len() < MOST {
            self.lost.push((at, events));
        }
    }

    pub(crate) fn damage(&mut self, at: u64, damage: Damage, bytes: u64) {
        self.damages += 1;
        self.damaged_bytes += bytes;
        if self.damaged.len() < MOST {
            self.damaged.push((at, damage, bytes));
        }
    }

    pub(crate) fn missing(&mut self, gap: Gap) {
        self.missing_blocks += u64::from(gap.blocks);
        self.missing_events += u64::from(gap.events);
    }

    /// Returns whether anything is missing that was written, or should have been.
    pub(crate) fn exist(&self) -> bool {
        self.events > 0 || self.damages > 0 || self.missing_blocks > 0
    }

    pub(crate) fn unknown(&mut self, kind: u8, bytes: usize) {
        let (blocks, all) = self.unknown.entry(kind).or_default();
        *blocks += 1;
        *all += bytes as u64;
    }

    /// Returns a sentence for each kind of loss, or none if the file is whole as far as it goes.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.damages > 0 {
            let (at, damage, _) = self.damaged[0];
            said.push(format!(
                "The file is damaged in {}: {} bytes could not be read. The first is at byte {at}: {damage}.",
                counted(self.damages, "place"),
                self.damaged_bytes
            ));
        }
        if self.missing_blocks > 0 {
            said.push(format!(
                "{} missing, with {}.",
                counted(self.missing_blocks, "block"),
                counted(self.missing_events, "event")
            ));
        }
        if self.unfinished_bytes > 0 {
            said.push(format!(
                "The file ends in the middle of a block, of which {} are there: its writer died, still \
                 writes, or the file was cut short.",
                counted(self.unfinished_bytes, "byte")
            ));
        }
        if self.events > 0 {
            said.push(format!(
                "{} lost before they could be written, noticed {}.",
                if self.events == 1 {
                    "One event was".into()
                } else {
                    format!("{} events were", self.events)
                },
                if self.times == 1 { "once".into() } else { format!("{} times", self.times) }
            ));
        }
        for (kind, (blocks, bytes)) in &self.unknown {
            said.push(format!(
                "{} of kind {kind}, {bytes} bytes, were written by a later version and are not shown.",
                counted(*blocks, "block")
            ));
        }
        if self.unlisted_events > 0 {
            said.push(format!(
                "{} of subjects beyond the first {} are not shown.",
                counted(self.unlisted_events, "event"),
                super::subjects::MOST_SUBJECTS
            ));
        }
        said
    }
}

/// Formats a count with its noun: `1 byte`, `2 bytes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
