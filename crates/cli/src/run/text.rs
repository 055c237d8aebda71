//! Describes for a person how programs would be started, how they ended and what they used.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use punctual::run::{MemoryUse, Outcome, Plan, Planned, Ran, Reserved, Used};
use punctual_model::command::Backend;
use punctual_model::time::Service;

use super::notices::taken_back;

/// Describes how programs would be started.
pub(super) fn plan(plan: &Plan) -> String {
    let mut rest = String::new();
    for planned in &plan.commands {
        if let Some(channel) = &planned.channel {
            rest += &format!("\n{}: through a channel: {channel}", name_of(planned));
        }
    }
    rest.extend(plan.only_admitted.iter().flat_map(|line| ["\n", line]));
    format!("{}{rest}\nadmitted; nothing was started", plan_table(plan))
}

/// Returns the name in the contract, or the program.
fn name_of(planned: &Planned) -> &str {
    planned.name.as_ref().or(planned.run.first()).map_or("", String::as_str)
}

fn plan_table(plan: &Plan) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["command", "reservation", "enforcement", "by", "CPU", "because"]);
    // Reasons are sentences, so they are wrapped to fit an ordinary terminal.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    for planned in &plan.commands {
        let (name, none) = (name_of(planned).to_owned(), || "-".to_owned());
        table.add_row(match &planned.terms {
            None => [name, none(), none(), none(), none(), "ordinary".into()],
            Some(terms) => [
                name,
                terms.reservation.to_string(),
                terms.enforcement.name().into(),
                match terms.broker {
                    Some(_) => "broker".into(),
                    None => terms.choice.backend.name().into(),
                },
                terms.cpu.map_or("any".into(), |cpu| cpu.to_string()),
                terms.choice.because.clone(),
            ],
        });
    }
    table
}

/// Returns a sentence about how the program `name` ended and what it used.
pub(super) fn sentence(name: &str, used: &Used) -> String {
    let usage = used.usage;
    let mut text = format!("{name} ran {} s", seconds(used.wall.as_secs_f64()));
    match &used.reserved {
        None => text += &format!(" and used {} s", seconds(used.exec_time.as_secs_f64())),
        Some(reserved) => text += &of_reservation(reserved),
    }
    text += &format!(
        "; switches: {} voluntary, {} involuntary",
        usage.voluntary_switches, usage.involuntary_switches
    );
    match used.set_free {
        0 => {}
        1 => text += "; 1 process that it left behind goes on as an ordinary one",
        more => text += &format!("; {more} processes that it left behind go on as ordinary ones"),
    }
    if let Some(broken) = used.reserved.as_ref().and_then(broken) {
        text += &format!("; {broken}");
    }
    text
}

fn of_reservation(reserved: &Reserved) -> String {
    let Reserved { terms, periods, offered, inside, outside, slots, .. } = reserved;
    let (who, others) = match terms.choice.backend {
        Backend::Kernel => ("its first thread", "its other threads and children "),
        Backend::Timetable | Backend::Server => ("it", ""),
    };
    let used = match (inside, reserved.percent()) {
        (Some(inside), Some(percent)) => {
            format!("{who} used {} s, {percent:.1} %", seconds(inside.as_secs_f64()))
        }
        _ => format!("{who} used an unknown part"),
    };
    let memory = memory(reserved).map_or(String::new(), |memory| format!("; {memory}"));
    let slots = slots.map_or(String::new(), |slots| format!(", slots given: {slots}"));
    let outside = outside.map_or(String::new(), |outside| {
        format!(", and {others}{} s outside of it", seconds(outside.as_secs_f64()))
    });
    format!(
        "; {used} of the {} s that {}, {}, offered (periods begun: {periods}{slots}){outside}{memory}",
        seconds(offered.as_secs_f64()),
        terms.reservation,
        terms.enforcement.name(),
    )
}

/// Describes the use of memory, if some is kept.
fn memory(reserved: &Reserved) -> Option<String> {
    let kept = reserved.terms.memory?;
    let Some(MemoryUse { peak, major_faults, refaults }) = reserved.memory else {
        return Some(format!("memory: {kept} promised, its use is not known"));
    };
    let beyond = peak.is_some_and(|peak| peak > kept);
    Some(format!(
        "memory: {kept} promised, peak {}{}, {major_faults} major faults, {refaults} of pages that were \
         there before",
        peak.map_or("unknown".into(), |peak| peak.to_string()),
        if beyond { " (what is beyond the promise is not kept)" } else { "" },
    ))
}

/// The number of leading columns of [`table`] that are text; the others are numbers.
const TEXTS: usize = 4;

/// Returns a table with a row for each program: how it ended and what it used, and a line for each that
/// keeps memory.
pub(super) fn table(outcome: &Outcome) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "command",
        "reservation",
        "held by",
        "ended",
        "ran, s",
        "used of it, s",
        "of what was offered",
        "outside, s",
        "periods",
        "slots",
        "left behind",
    ]);
    for Ran { name, used, .. } in &outcome.commands {
        let reserved = used.reserved.as_ref();
        let time =
            |of: Option<Service>| of.map_or("-".to_owned(), |time| seconds(time.as_secs_f64()));
        let outside = match reserved {
            None => Some(used.exec_time),
            Some(reserved) => reserved.outside,
        };
        let percent = reserved.and_then(Reserved::percent);
        let slots = reserved.and_then(|reserved| reserved.slots);
        table.add_row([
            name.clone().unwrap_or_default(),
            reserved.map_or("-".into(), |reserved| {
                let terms = &reserved.terms;
                format!("{} {}", terms.reservation, terms.enforcement.name())
            }),
            reserved.map_or("-".into(), |reserved| {
                let by = match reserved.terms.broker.as_ref().and_then(|through| through.grant) {
                    Some(grant) => format!("broker, grant {grant}"),
                    None => reserved.terms.choice.backend.name().to_owned(),
                };
                reserved.terms.cpu.map_or(by.clone(), |cpu| format!("{by}, CPU {cpu}"))
            }),
            ended(used.status),
            seconds(used.wall.as_secs_f64()),
            time(reserved.and_then(|reserved| reserved.inside)),
            percent.map_or("-".into(), |percent| format!("{percent:.1} %")),
            time(outside),
            reserved.map_or("-".into(), |reserved| reserved.periods.to_string()),
            slots.map_or("-".into(), |slots| slots.to_string()),
            used.set_free.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(TEXTS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.to_string();
    for Ran { name, used, .. } in &outcome.commands {
        if let Some(memory) = used.reserved.as_ref().and_then(memory) {
            text += &format!("\n{}: {memory}", name.as_deref().unwrap_or_default());
        }
    }
    text
}

/// Returns a sentence about a broken promise, if there is one.
pub(super) fn broken(reserved: &Reserved) -> Option<String> {
    if let Some(why) = &reserved.revoked {
        return Some(format!(
            "{}; {why}",
            taken_back(reserved.terms.reservation, reserved.terms.choice.backend)
        ));
    }
    let taken = reserved.taken();
    if taken > 0 {
        return Some(format!(
            "the kernel took {taken} pages of its memory, and the promise of memory was not kept"
        ));
    }
    (reserved.failures > 0).then(|| {
        format!(
            "the kernel refused {} times to start or stop it: its control group was removed or has \
             no real-time time (cpu.rt_runtime_us), or our rights were taken away, and the \
             reservation was not kept",
            reserved.failures
        )
    })
}

/// Describes in two words how a process ended.
fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Formats seconds with three decimals.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::run::{Choice, Terms};
    use punctual_linux::process::Usage;
    use punctual_model::Duration;
    use punctual_model::reservation::Enforcement;
    use punctual_model::units::Bytes;

    fn used(inside_ms: u64, outside_ms: u64) -> Used {
        let terms = Terms {
            reservation: "2ms/8ms".parse().expect("valid"),
            enforcement: Enforcement::Soft,
            choice: Choice { backend: Backend::Timetable, because: "of a test".into() },
            cpu: Some(1),
            broker: None,
            adapt: None,
            memory: None,
        };
        let (inside, outside) = (Service::from_millis(inside_ms), Service::from_millis(outside_ms));
        let usage = Usage {
            first_thread: None,
            processor: inside + outside,
            voluntary_switches: 3,
            involuntary_switches: 4,
        };
        Used {
            status: ExitStatus::from_raw(7 << 8),
            usage,
            wall: Duration::from_millis(80),
            exec_time: inside + outside,
            reserved: Some(Reserved {
                terms,
                periods: 10,
                offered: Service::from_millis(20),
                inside: Some(inside),
                outside: Some(outside),
                slots: Some(10),
                failures: 0,
                revoked: None,
                memory: None,
            }),
            set_free: 2,
        }
    }

    #[test]
    fn the_use_is_a_part_of_what_was_offered() {
        let text = sentence("player", &used(10, 5));
        for part in [
            "it used 0.010 s, 50.0 % of the 0.020 s that 2ms/8ms, soft, offered",
            "(periods begun: 10, slots given: 10), and 0.005 s outside of it",
            "2 processes that it left behind go on",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("not kept"), "{text}");
    }

    #[test]
    fn the_use_of_memory_is_said_beside_the_promise() {
        let mut used = used(10, 5);
        let mut with = |peak: u64, refaults| {
            let reserved = used.reserved.as_mut().expect("one");
            reserved.terms.memory = Some(Bytes(64 << 20));
            let peak = Some(Bytes(peak << 20));
            reserved.memory = Some(MemoryUse { peak, major_faults: 9, refaults });
            sentence("player", &used)
        };
        let kept = with(60, 0);
        assert!(kept.contains("memory: 64 MiB promised, peak 60 MiB, 9 major faults"), "{kept}");
        assert!(with(60, 2).contains("took 2 pages"));
        let beyond = with(70, 2);
        assert!(
            beyond.contains("peak 70 MiB (what is beyond") && !beyond.contains("took"),
            "{beyond}"
        );
        used.reserved.as_mut().expect("one").memory = None;
        let unknown = sentence("player", &used);
        assert!(unknown.contains("64 MiB promised, its use is not known"), "{unknown}");
    }

    #[test]
    fn a_broken_promise_is_said() {
        let mut used = used(10, 5);
        if let Some(reserved) = &mut used.reserved {
            (reserved.failures, reserved.inside) = (3, None);
        }
        let text = sentence("player", &used);
        assert!(text.contains("refused 3 times") && text.contains("an unknown part"), "{text}");
    }

    #[test]
    fn a_revoked_reservation_is_reported() {
        let mut used = used(10, 5);
        if let Some(reserved) = &mut used.reserved {
            reserved.revoked = Some("overuse".into());
        }
        let text = sentence("player", &used);
        assert!(text.contains("took the reservation back") && text.contains("overuse"), "{text}");
    }
}
