//! How a program ended and what it used, for a person and for a program.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use punctual_model::command::Backend;
use punctual_model::time::Service;
use serde::Serialize;

use super::granted::taken_back;
use super::usage::{Ran, Reserved};

/// The form that other programs read: keys are never renamed, only added.
#[derive(Serialize)]
pub(super) struct Json {
    /// Of a contract's command; null for one that was typed.
    name: Option<String>,
    command: Vec<String>,
    /// Null, as all about a reservation: an ordinary program.
    budget_ns: Option<u64>,
    period_ns: Option<u64>,
    enforcement: Option<&'static str>,
    backend: Option<&'static str>,
    because: Option<String>,
    /// Null: by our own right.
    broker: Option<String>,
    grant: Option<u64>,
    /// Why the broker took the reservation back.
    revoked: Option<String>,
    cpu: Option<usize>,
    wall_ns: u64,
    exec_time_ns: u64,
    exec_time_of_first_thread_ns: Option<u64>,
    periods: Option<u64>,
    offered_ns: Option<u64>,
    inside_ns: Option<u64>,
    outside_ns: Option<u64>,
    used_percent: Option<f64>,
    slots: Option<u64>,
    failures: u64,
    processes_set_free: usize,
    voluntary_switches: u64,
    involuntary_switches: u64,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

/// The facts of `ran` as JSON has them.
pub(super) fn json(name: Option<&str>, command: Vec<String>, ran: &Ran) -> Json {
    let usage = ran.ended.usage;
    let reserved = ran.reserved.as_ref();
    let terms = reserved.map(|reserved| &reserved.terms);
    let broker = terms.and_then(|terms| terms.broker.as_ref());
    let nanos = |of: fn(&Reserved) -> Option<Service>| reserved.and_then(of).map(Service::as_nanos);
    Json {
        name: name.map(str::to_owned),
        command,
        budget_ns: terms.map(|terms| terms.reservation.budget().as_nanos()),
        period_ns: terms.map(|terms| terms.reservation.period().as_nanos()),
        enforcement: terms.map(|terms| terms.enforcement.name()),
        backend: terms.map(|terms| terms.choice.backend.name()),
        because: terms.map(|terms| terms.choice.because.clone()),
        broker: broker.map(|through| through.path.display().to_string()),
        grant: broker.and_then(|through| through.grant).map(|grant| grant.0),
        revoked: reserved.and_then(|reserved| reserved.revoked.clone()),
        cpu: terms.and_then(|terms| terms.cpu),
        wall_ns: ran.wall.as_nanos(),
        exec_time_ns: ran.exec_time.as_nanos(),
        exec_time_of_first_thread_ns: usage.first_thread.map(Service::as_nanos),
        periods: reserved.map(|reserved| reserved.periods),
        offered_ns: nanos(|reserved| Some(reserved.offered)),
        inside_ns: nanos(|reserved| reserved.inside),
        outside_ns: nanos(|reserved| reserved.outside),
        used_percent: reserved.and_then(Reserved::percent),
        slots: reserved.and_then(|reserved| reserved.slots),
        failures: reserved.map_or(0, |reserved| reserved.failures),
        processes_set_free: ran.set_free,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        exit_code: ran.ended.status.code(),
        signal: ran.ended.status.signal(),
    }
}

/// A sentence.
pub(super) fn text(name: &str, ran: &Ran) -> String {
    let usage = ran.ended.usage;
    let mut text = format!("{name} ran {} s", seconds(ran.wall.as_secs_f64()));
    match &ran.reserved {
        None => text += &format!(" and used {} s", seconds(ran.exec_time.as_secs_f64())),
        Some(reserved) => text += &of_reservation(reserved),
    }
    text += &format!(
        "; switches: {} voluntary, {} involuntary",
        usage.voluntary_switches, usage.involuntary_switches
    );
    match ran.set_free {
        0 => {}
        1 => text += "; 1 process that it left behind goes on as an ordinary one",
        more => text += &format!("; {more} processes that it left behind go on as ordinary ones"),
    }
    if let Some(broken) = ran.reserved.as_ref().and_then(broken) {
        text += &format!("; {broken}");
    }
    text
}

fn of_reservation(reserved: &Reserved) -> String {
    let Reserved { terms, periods, offered, inside, outside, slots, .. } = reserved;
    let (who, others) = match terms.choice.backend {
        Backend::Kernel => ("its first thread", "its other threads and children "),
        Backend::Timetable => ("it", ""),
    };
    let used = match (inside, reserved.percent()) {
        (Some(inside), Some(percent)) => {
            format!("{who} used {} s, {percent:.1} %", seconds(inside.as_secs_f64()))
        }
        _ => format!("{who} used an amount that the kernel keeps no account of"),
    };
    let slots = slots.map_or(String::new(), |slots| format!(", slots given: {slots}"));
    let outside = outside.map_or(String::new(), |outside| {
        format!(", and {others}{} s outside of it", seconds(outside.as_secs_f64()))
    });
    format!(
        "; {used} of the {} s that {}, {}, offered (periods begun: {periods}{slots}){outside}",
        seconds(offered.as_secs_f64()),
        terms.reservation,
        terms.enforcement.name(),
    )
}

/// What must not pass in silence.
pub(super) fn broken(reserved: &Reserved) -> Option<String> {
    if let Some(why) = &reserved.revoked {
        return Some(format!("{}; {why}", taken_back(reserved.terms.reservation)));
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

/// How a process ended, in two words.
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// To the millisecond.
pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

#[cfg(test)]
mod tests {
    use super::super::granted::Through;
    use super::super::start::Terms;
    use super::*;
    use punctual_linux::process::{Ended, Usage};
    use punctual_model::Duration;
    use punctual_model::reservation::Enforcement;
    use punctual_runtime::reservation::Choice;

    fn ran(inside_ms: u64, outside_ms: u64) -> Ran {
        let terms = Terms {
            reservation: "2ms/8ms".parse().expect("valid"),
            enforcement: Enforcement::Soft,
            choice: Choice { backend: Backend::Timetable, because: "of a test".into() },
            cpu: Some(1),
            broker: None,
        };
        let (inside, outside) = (Service::from_millis(inside_ms), Service::from_millis(outside_ms));
        let usage = Usage {
            first_thread: None,
            processor: inside + outside,
            voluntary_switches: 3,
            involuntary_switches: 4,
        };
        Ran {
            ended: Ended { status: ExitStatus::from_raw(7 << 8), usage },
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
            }),
            set_free: 2,
        }
    }

    #[test]
    fn the_use_is_a_part_of_what_was_offered() {
        let text = text("player", &ran(10, 5));
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
    fn a_broken_promise_is_said() {
        let mut ran = ran(10, 5);
        if let Some(reserved) = &mut ran.reserved {
            (reserved.failures, reserved.inside) = (3, None);
        }
        let text = text("player", &ran);
        assert!(text.contains("refused 3 times") && text.contains("no account"), "{text}");
    }

    #[test]
    fn a_reservation_that_was_taken_back_is_told_of() {
        let mut ran = ran(10, 5);
        if let Some(reserved) = &mut ran.reserved {
            let grant = Some(punctual_broker::grant::GrantId(7));
            reserved.terms.broker = Some(Through { path: "/run/x".into(), grant });
            reserved.revoked = Some("overuse".into());
        }
        let text = text("player", &ran);
        assert!(text.contains("took the reservation back") && text.contains("overuse"), "{text}");
        let json = serde_json::to_value(json(None, Vec::new(), &ran)).expect("numbers and texts");
        assert_eq!((&json["grant"], &json["broker"]), (&7.into(), &"/run/x".into()));
        assert_eq!(json["revoked"], "overuse");
    }

    #[test]
    fn json_has_the_terms_the_use_and_the_end() {
        let json = serde_json::to_value(json(Some("a"), vec!["x".into()], &ran(10, 5)));
        let json = json.expect("numbers and texts");
        assert_eq!((&json["name"], &json["command"][0]), (&"a".into(), &"x".into()));
        assert_eq!((&json["backend"], &json["enforcement"]), (&"timetable".into(), &"soft".into()));
        assert_eq!(
            (&json["inside_ns"], &json["outside_ns"]),
            (&10_000_000.into(), &5_000_000.into())
        );
        assert_eq!((&json["used_percent"], &json["exit_code"]), (&50.0.into(), &7.into()));
    }
}
