//! One page with every plot and table of the study.
//!
//! - [`map`], [`own`], [`transfers`], [`further`]: in virtual time, the same on every machine.
//! - [`live`]: on this host and others, from the results of `soft-modem live`.

pub mod further;
pub mod live;
pub mod map;
pub mod own;
pub mod transfers;

use punctual_sweep::page::{Page, Section};

/// Builds the page of those sections; `notes` explain what is missing.
pub fn page(notes: Vec<String>, sections: Vec<Section>) -> Page {
    Page {
        title: "The soft modem study".into(),
        notes,
        sections,
        footer: vec![
            "After Jones and Saroiu, \"Predictability Requirements of a Soft Modem\". Written by \
             soft-modem map. \"Study\" is what the paper reports; everything else was computed or \
             measured here. What is in virtual time is the same on every machine."
                .into(),
            "INT: in the interrupt. DPC: in a deferred call. THR: in a thread. RES: in a thread \
             with a reservation of X in every Y."
                .into(),
        ],
    }
}
