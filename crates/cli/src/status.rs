//! `punctual status`: shows the broker's grants, their users and use, and its refusals.

mod channels;

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use punctual::watch::BrokerState;
use punctual_client::wire::{GrantStatus, GuardStatus, Status};
use punctual_client::{Broker, SOCKET};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;
use punctual_model::units::percent;
use punctual_model::{Duration, Service};

const HELP: &str = "\
Examples: your own grants; as root, those of all users
  punctual status
  sudo punctual status --json | jq '.grants[] | select(.used_ppm > .share_ppm)'
  sudo punctual status --json | jq '.channels.channels[] | select(.broken)'

For each channel it shows the promise and the delays measured since its queue was attached. A \
delay lasts from the instant at which a message counts as arrived to the hand-over of its last \
packet (for a channel that receives: from its arrival at this host to its client's queue).

Exit codes: 0 the broker answered, 2 bad usage, 3 no broker answers.";

/// Shows what the broker has granted and refused to you, or to all users if you are root.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The broker's socket.
    #[arg(long, alias = "socket", value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Print the status as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let state = Broker::connect_to(&args.broker)
        .and_then(|mut broker| BrokerState::of(&mut broker))
        .map_err(Failure::from)?;
    if args.json {
        output::json(&state)?;
    } else {
        output::print(&(text(&state.status) + &channels::text(&state.channels)))?;
    }
    Ok(Exit::Kept)
}

fn text(status: &Status) -> String {
    let totals = &status.totals;
    let capacity = totals.reservable_ppm * u64::from(totals.cpus);
    let mut page = String::new();
    if !status.grants.is_empty() {
        page = format!("{}\n\n", table(&status.grants));
    }
    page += &format!(
        "{} of {} granted on {} CPUs in {} grants; yours: {} of {}; {} connections, {} refusals.\n",
        percent(totals.granted_ppm),
        percent(capacity),
        totals.cpus,
        totals.grants,
        percent(totals.yours_ppm),
        percent(totals.quota_ppm),
        totals.connections,
        totals.refused,
    );
    let switch = Service::from_nanos(totals.context_switch_ns);
    page += &format!("A switch is charged {switch}: {}.\n", totals.context_switch_from);
    page += &guard(&totals.guard);
    for refused in status.refusals.iter().take(8) {
        let (uid, pid) = (refused.uid, refused.pid);
        page +=
            &format!("user {uid}, process {pid} was refused {}: {}\n", refused.what, refused.why);
    }
    page
}

fn guard(looks: &GuardStatus) -> String {
    format!(
        "The guard has looked {} times at what is used, {} times more than {} late, at worst {}.\n",
        looks.looks,
        looks.late,
        GuardStatus::LATE,
        Duration::from_nanos(looks.worst_ns),
    )
}

fn table(grants: &[GrantStatus]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "grant",
        "user",
        "process",
        "thread",
        "what",
        "CPU",
        "granted",
        "used",
        "connected",
    ]);
    for grant in grants {
        table.add_row([
            grant.grant.to_string(),
            grant.uid.to_string(),
            grant.pid.to_string(),
            grant.thread.to_string(),
            format!("{}: {}", grant.kind, grant.what),
            grant.cpu.map_or_else(|| "any".into(), |cpu| cpu.to_string()),
            percent(grant.share_ppm),
            grant.used_ppm.map_or_else(|| "–".into(), percent),
            if grant.connected { "yes" } else { "no" }.into(),
        ]);
    }
    for column in [0, 1, 2, 3, 5, 6, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
