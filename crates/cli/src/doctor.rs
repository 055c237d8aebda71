//! `punctual doctor`: checks whether this host can keep promises, and what to change so that it
//! can.

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, ContentArrangement, Row, Table};
use punctual::Message;
use punctual::doctor::{self, Check, State};
use punctual_frontend::exit::{Exit, Outcome};
use punctual_frontend::hint::told;
use punctual_frontend::output;

const HELP: &str = "\
Example: lists what this host would need
  punctual doctor
  punctual doctor --json | jq '.checks[] | select(.state != \"ok\")'

SCHED_FIFO, SCHED_DEADLINE, its bandwidth and locked memory are tried for real, on threads that \
end at once; for about 5 ms these take all free bandwidth. \"unknown\" marks what could not be \
examined or had no clear result. As root, the network layers below the sockets are tried on a \
network made for this. For a second, timers on idle CPUs are measured, alternately on the host as \
it is and with the CPUs kept from halting (as root in a control group made for this). Late timers \
are attributed to halting only if the difference is clear.

Exit codes: 0 able, perhaps with warnings; 3 this host cannot: neither SCHED_FIFO nor \
SCHED_DEADLINE, or no high-resolution timers.";

/// Checks what this host can promise, and suggests changes so that it can promise more.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
    /// Also try XDP and AF_XDP on this interface. Needs root; some drivers reset the interface,
    /// which then carries nothing for some seconds.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let mut diagnosis = doctor::diagnose(args.interface.as_deref());
    for check in diagnosis.checks.iter_mut().chain(&mut diagnosis.network) {
        check.remedy = check.remedy.take().map(|remedy| told(&remedy).into());
    }
    if args.json {
        output::json(&diagnosis)?;
    } else {
        let text = table_of(&diagnosis.checks);
        let network = table_of(&diagnosis.network);
        output::print(&format!("{text}\n\nNetwork\n{network}\n\n{}\n", diagnosis.verdict()))?;
    }
    Ok(if diagnosis.able { Exit::Kept } else { Exit::CannotHere })
}

/// Wide enough for two columns of sentences, narrow enough for most terminals.
const WIDTH: u16 = 110;

/// Returns the table. Each row begins with the coloured state; `anstream` drops the colour where
/// the output is no terminal.
fn table_of(checks: &[Check]) -> String {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.load_style(NOTHING);
    table.set_header(["state", "what", "found", "to do"]);
    for check in checks {
        let remedy = check.remedy.as_ref().map_or("", Message::text);
        let cells = [check.state.word(), check.name, &check.found, remedy];
        table.add_row(Row::from(cells.map(Cell::new)));
    }
    let lines: Vec<String> = table.lines().map(|line| coloured(line.trim_end())).collect();
    lines.join("\n")
}

/// Colours the first word of a row. This happens after the layout, so that the table does not count
/// invisible characters.
fn coloured(line: &str) -> String {
    let states = [State::Ok, State::Warning, State::Cannot, State::Unknown];
    let leading = |state: &State| {
        let rest = line.trim_start().strip_prefix(state.word())?;
        rest.starts_with(' ').then_some((*state, rest))
    };
    match states.iter().find_map(leading) {
        Some((state, rest)) => {
            let style = style(state);
            let indent = &line[..line.len() - line.trim_start().len()];
            format!("{indent}{style}{}{style:#}{rest}", state.word())
        }
        None => line.to_owned(),
    }
}

fn style(state: State) -> Style {
    match state {
        State::Ok => AnsiColor::Green.on_default(),
        State::Warning => AnsiColor::Yellow.on_default(),
        State::Cannot => AnsiColor::Red.on_default().bold(),
        State::Unknown => Style::new().dimmed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, state: State, found: &str, remedy: &str) -> Check {
        Check { name, state, found: found.to_owned(), remedy: Some(remedy.into()) }
    }

    #[test]
    fn a_row_begins_with_its_coloured_state() {
        let text = table_of(&[
            check("a", State::Ok, "fine", ""),
            check("b", State::Cannot, "broken", "mend it"),
        ]);
        let green = style(State::Ok);
        assert!(text.contains(&format!("{green}ok{green:#} ")), "{text}");
        let red = style(State::Cannot);
        assert!(text.contains(&format!("{red}cannot{red:#} ")), "{text}");
        assert!(text.contains("mend it"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_table() {
        let long = "word ".repeat(100);
        let text = table_of(&[check("name of it", State::Warning, &long, &long)]);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= usize::from(WIDTH)), "{plain}");
    }
}
