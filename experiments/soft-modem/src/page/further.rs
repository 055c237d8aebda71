//! The section on the study's future work.

use punctual_sweep::page::{Part, Section};
use punctual_sweep::sheet::Sheet;

/// Returns the section.
pub fn section(several: Sheet, together: Sheet, callbacks: Sheet) -> Section {
    let part = |title: &str, sheet| Part { title: title.into(), plots: Vec::new(), sheet };
    Section {
        title: "Further work the study names (its §7)".into(),
        about: vec![
            "Several modems on one driver: it serves them in turn at each interrupt, and the least X \
             is searched for with Y of 4 and 8 ms. With the latch, the last modem is forgotten first. \
             Six modems are 88 % of a CPU; seven are more than one."
                .into(),
            "A modem and an audio player (3 ms every 20 ms, two buffers): side by side as ordinary \
             threads, each reserved, and reserved too small. A reservation that is too small costs \
             its holder and nobody else. Each reservation goes to the first of the CPUs whose \
             timetable has room; ten calls of 37 s are simulated in the slots of each."
                .into(),
            "Modems in interrupt context delay everything on their CPU by the work of one interrupt, \
             and nothing on another: so two CPUs help a callback only if it is kept off the modem's."
                .into(),
        ],
        summary: several,
        plots: Vec::new(),
        parts: vec![
            part("Clients beside each other, on one CPU and on two", together),
            part("How late a 1 ms callback begins", callbacks),
        ],
    }
}
