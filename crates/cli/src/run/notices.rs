//! Prints messages on standard error while programs run.

use std::io::{self, Write as _};
use std::path::Path;

use punctual::run::{Compact, GrantNews, Notice, Terms};
use punctual_broker::kernel::class::residual;
use punctual_client::wire::{Event, Offered};
use punctual_frontend::exit::complain;
use punctual_frontend::hint::told;
use punctual_frontend::output;
use punctual_frontend::trace_file::complain_of;
use punctual_model::command::Backend;
use punctual_model::units::percent;
use punctual_model::{Duration, Reservation};

use crate::inputs::note;

/// The form of messages while programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Text,
    Json,
    /// Only messages that the user must see.
    Quiet,
}

/// Prints a line on standard error. Errors are ignored, since only the programs' results count.
pub(super) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints a notice in the form that `manner` selects, if it includes the notice.
pub(super) fn print(notice: &Notice<'_>, manner: Manner) {
    let text = match notice {
        Notice::Profile(message) => return note(&told(message)),
        Notice::TraceStopped(error) => return complain_of(Some(error), "the programs"),
        Notice::TraceFailed(failure) => return complain(told(failure.message())),
        Notice::Grant(news) if manner == Manner::Json => {
            return output::json_line(news).map_or_else(complain, |line| say(&line));
        }
        Notice::Grant(news) if manner == Manner::Quiet && !matters(news.event) => return,
        Notice::Grant(news) => match words(news) {
            Some(text) => format!("{}{text}", before(news.command)),
            None => return,
        },
        Notice::Adapted { name, to, .. } if manner == Manner::Json => {
            let news = Adapted {
                command: *name,
                budget_ns: to.budget().as_nanos(),
                period_ns: to.period().as_nanos(),
            };
            return output::json_line(&news).map_or_else(complain, |line| say(&line));
        }
        Notice::NotAdapted { name, at, why } if manner != Manner::Json => {
            format!("{}uses another amount than {at}, which stays: {why}", before(*name))
        }
        Notice::SignalNotPassedOn { signal, process } => format!(
            "signal {signal} was not passed on to process {process}, which belongs to another user"
        ),
        Notice::Started { .. } => return,
        Notice::Untraced if manner == Manner::Quiet => return,
        Notice::Untraced => UNTRACED.to_owned(),
        // The remaining notices are for interested users only.
        _ if manner != Manner::Text => return,
        Notice::OnlyAdmitted(text) => (*text).to_owned(),
        Notice::Held { name, terms } => format!("{}{}", before(*name), held(terms)),
        Notice::Channel { name, asked, broker } => {
            format!("{}{}", before(*name), channel(asked, broker))
        }
        Notice::Adapted { name, from, to } => {
            format!("{}from {from} to {to}, as it uses", before(*name))
        }
        Notice::NotAdapted { .. } => return,
        Notice::Awake { cpus, gives_way } => awake(cpus, *gives_way),
    };
    say(&format!("punctual: {text}"));
}

/// A change of a reservation that follows its program's use.
#[derive(serde::Serialize)]
struct Adapted<'a> {
    command: Option<&'a str>,
    budget_ns: u64,
    period_ns: u64,
}

const UNTRACED: &str = "neither the kernel nor a server tells when a budget ends: the trace has nothing \
                        of that; punctual why --trace sees it";

fn before(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("{name}: "))
}

fn held(terms: &Terms) -> String {
    let by = match terms.choice.backend {
        Backend::Kernel => "by the kernel, for the first thread",
        Backend::Timetable => "by a timetable, for all that it starts",
        Backend::Server => "by a server, for all that it starts",
    };
    let on = terms.cpu.map_or(String::new(), |cpu| format!(", on CPU {cpu}"));
    let (enforcement, because) = (terms.enforcement.name(), &terms.choice.because);
    format!("{}, {enforcement}, {by}{on}: {because}", terms.reservation)
}

fn channel(asked: &Compact, broker: &Path) -> String {
    let to = match &asked.destination {
        Some(to) => format!("to {to}"),
        None => "to where it sends first".to_owned(),
    };
    let (traffic, bound) = (asked.traffic, asked.delay_bound);
    let (bytes, spacing) = (traffic.max_message(), traffic.min_inter_arrival());
    format!(
        "datagrams {to} go through a channel: up to {bytes} bytes every {spacing}, each within {bound}; \
         the broker at {} is asked with the first one",
        broker.display()
    )
}

fn awake(cpus: &[usize], gives_way: bool) -> String {
    let which = match cpus {
        [one] => format!("CPU {one} does"),
        more => {
            let more: Vec<String> = more.iter().map(ToString::to_string).collect();
            format!("CPUs {} do", more.join(", "))
        }
    };
    let share = if gives_way {
        ""
    } else {
        "; ordinary threads of other sessions and control groups share with what keeps them from it"
    };
    format!("{which} not halt meanwhile{share}")
}

/// Returns whether the user must see the event even with `--quiet`.
fn matters(event: &Event) -> bool {
    matches!(event, Event::Revoked { .. } | Event::Choose { .. })
}

/// Returns a sentence, or `None` if the event concerns no reservation of this program.
fn words(news: &GrantNews<'_>) -> Option<String> {
    let text = match news.event {
        Event::NearLimit { used_ppm, granted_ppm } => format!(
            "near its limit: it uses {} of a CPU, and {} is granted",
            percent(*used_ppm),
            percent(*granted_ppm)
        ),
        Event::Broken { used_ppm, granted_ppm, owed_ns, most_ns, within_ms } => format!(
            "it used {} of a CPU, and {} is granted: it owes {}, must rest until that is paid back, \
             within {}, and loses its grant when it owes {}",
            percent(*used_ppm),
            percent(*granted_ppm),
            Duration::from_nanos(*owed_ns),
            Duration::from_millis(*within_ms),
            Duration::from_nanos(*most_ns),
        ),
        Event::Choose { must_free_ppm, within_ms, offers } => {
            let changes: Vec<&str> =
                offers.iter().map(|Offered { change, .. }| &**change).collect();
            let smaller = match changes.as_slice() {
                [] => String::new(),
                some => format!(", or run it with {}", some.join(", or ")),
            };
            format!(
                "the host got tighter, and {} of a CPU must be given back within {}: the newest \
                 grants are taken back then; end a program{smaller}",
                percent(*must_free_ppm),
                Duration::from_millis(*within_ms)
            )
        }
        Event::Revoked { why } => format!("{}; {why}", taken_back(news.reservation, news.backend)),
        Event::ChannelEnded { why } => format!("its channel has ended: {why}"),
        Event::MoreAvailable { .. } | Event::Used { .. } => return None,
        Event::Unknown(said) => format!("the broker says what this program does not know: {said}"),
    };
    Some(format!("grant {}: {text}", news.grant))
}

/// Describes what remains for a program whose grant is over: it cannot leave SCHED_DEADLINE by itself.
pub(super) fn taken_back(reservation: Reservation, backend: Backend) -> String {
    if backend != Backend::Kernel {
        return "the broker took the reservation back, and the program goes on as an ordinary one"
            .into();
    }
    format!(
        "the broker took the reservation back, and the program goes on with at most {}",
        residual(reservation)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(event: &Event) -> Option<String> {
        let reservation = "5ms/10ms".parse().expect("valid");
        let grant = punctual_client::grant::GrantId(7);
        let backend = Backend::Kernel;
        words(&GrantNews { command: None, grant, reservation, backend, event })
    }

    #[test]
    fn each_event_is_a_sentence_with_its_numbers() {
        let offered = |change: &str| Offered {
            change: change.into(),
            want: punctual_client::want::RawWant::Priority { thread: 1, share_ppm: 1_000 },
        };
        for (event, parts) in [
            (
                Event::NearLimit { used_ppm: 190_000, granted_ppm: 200_000 },
                &["19.0 %", "20.0 % is granted"][..],
            ),
            (
                Event::Broken {
                    used_ppm: 250_000,
                    granted_ppm: 200_000,
                    owed_ns: 3_000_000,
                    most_ns: 840_000_000,
                    within_ms: 10_000,
                },
                &["25.0 %", "owes 3ms", "within 10s", "840ms"],
            ),
            (
                Event::Choose {
                    must_free_ppm: 50_000,
                    within_ms: 10_000,
                    offers: vec![offered("a budget of 1ms")],
                },
                &["5.0 %", "within 10s", "run it with a budget of 1ms"],
            ),
            (Event::Revoked { why: "overuse".into() }, &["at most 2ms/100ms", "overuse"]),
        ] {
            let text = said(&event).expect("a sentence");
            assert!(text.starts_with("grant 7: "), "{text}");
            for part in parts {
                assert!(text.contains(part), "{text}");
            }
        }
        assert_eq!(said(&Event::MoreAvailable { ppm: 1 }), None);
    }

    #[test]
    fn quiet_shows_only_events_that_end_a_reservation() {
        assert!(matters(&Event::Revoked { why: String::new() }));
        assert!(!matters(&Event::NearLimit { used_ppm: 1, granted_ppm: 1 }));
    }
}
