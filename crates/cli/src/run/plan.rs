//! What would be started, and what is only admitted.

use comfy_table::{ContentArrangement, Table, presets};
use punctual_model::{self as model, Contract};
use serde::Serialize;

use super::contract::Chosen;
use crate::exit::{Exit, Outcome};
use crate::output;

#[derive(Serialize)]
struct Page<'a> {
    admitted: bool,
    commands: Vec<Row<'a>>,
    only_admitted: Option<&'a str>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    run: Vec<&'a str>,
    /// Null, as all below: an ordinary program.
    budget_ns: Option<u64>,
    period_ns: Option<u64>,
    enforcement: Option<&'static str>,
    backend: Option<&'static str>,
    /// Where the broker listens that is to grant it; null: by our own right.
    broker: Option<String>,
    /// Null: any.
    cpu: Option<usize>,
    because: Option<&'a str>,
    /// What its datagrams go through, as `--channel` takes it; null: nothing.
    channel: Option<String>,
}

/// The plan, on standard output.
pub(super) fn show(json: bool, all: &[Chosen<'_>], only_admitted: &Option<String>) -> Outcome {
    let rows = all.iter().map(row).collect();
    let page = Page { admitted: true, commands: rows, only_admitted: only_admitted.as_deref() };
    let text = if json {
        // Strings and numbers alone: there is nothing in it that JSON cannot say.
        serde_json::to_string_pretty(&page).unwrap_or_default()
    } else {
        let mut rest = String::new();
        for Chosen { command, channel, .. } in all {
            if let Some(channel) = channel {
                let line = format!("\n{}: through a channel: {}", command.name(), channel.asked);
                rest.push_str(&line);
            }
        }
        rest.extend(only_admitted.iter().flat_map(|line| ["\n", line]));
        format!("{}{rest}\nadmitted; nothing was started", table(all))
    };
    output::print(&(text + "\n"))?;
    Ok(Exit::Kept)
}

fn row<'a>(Chosen { command, terms, channel }: &'a Chosen<'_>) -> Row<'a> {
    let terms = terms.as_ref();
    let words = std::iter::once(command.program());
    Row {
        name: command.name(),
        run: words.chain(command.arguments().iter().map(String::as_str)).collect(),
        budget_ns: terms.map(|terms| terms.reservation.budget().as_nanos()),
        period_ns: terms.map(|terms| terms.reservation.period().as_nanos()),
        enforcement: terms.map(|terms| terms.enforcement.name()),
        backend: terms.map(|terms| terms.choice.backend.name()),
        broker: terms
            .and_then(|terms| terms.broker.as_ref())
            .map(|through| through.path.display().to_string()),
        cpu: terms.and_then(|terms| terms.cpu),
        because: terms.map(|terms| &*terms.choice.because),
        channel: channel.as_ref().map(|channel| channel.asked.to_string()),
    }
}

fn table(all: &[Chosen<'_>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["command", "reservation", "enforcement", "by", "CPU", "because"]);
    // Reasons are sentences: wrapped, so that the table fits an ordinary terminal.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    for Chosen { command, terms, .. } in all {
        let none = || "-".to_owned();
        table.add_row(match terms {
            None => [command.name().into(), none(), none(), none(), none(), "ordinary".into()],
            Some(terms) => [
                command.name().into(),
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

/// The entries that admission counted and nobody starts here; none if there are none.
pub(super) fn only_admitted(contract: &Contract, all: &[Chosen<'_>]) -> Option<String> {
    let held: Vec<usize> = all
        .iter()
        .filter_map(|chosen| chosen.command.held())
        .map(|holding| holding.reservation)
        .collect();
    let free = contract.reservations.iter().enumerate().filter(|(at, _)| !held.contains(at));
    let upcalls: Vec<&str> = contract.upcalls.iter().map(model::Upcall::name).collect();
    // Upcalls are among the tasks too, in their form as tasks.
    let tasks = contract.tasks.iter().map(model::Task::name).filter(|task| !upcalls.contains(task));
    let sent: Vec<usize> = all.iter().filter_map(|chosen| chosen.command.channel()).collect();
    let channels = contract.channels.iter().enumerate().filter(|(at, _)| !sent.contains(at));
    let channels = channels.map(|(_, channel)| channel.name());
    let best_effort = contract.best_effort.iter().map(|channel| &*channel.name);
    let kinds = [
        ("reservations", free.map(|(_, named)| &*named.name).collect()),
        ("tasks", tasks.collect()),
        ("upcalls", upcalls.clone()),
        ("channels", channels.chain(best_effort).collect()),
        ("streams", contract.streams.iter().map(model::Stream::name).collect::<Vec<_>>()),
    ];
    let some = kinds.iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<String> =
        some.map(|(kind, names)| format!("{kind} {}", quoted(names))).collect();
    (!lists.is_empty()).then(|| {
        format!("only admitted, as no command here holds or runs them: {}", lists.join("; "))
    })
}

/// `"a", "b"`.
pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}
