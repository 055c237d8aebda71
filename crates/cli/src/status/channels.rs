//! The part of the status about channels: their contracts and measurements.

use comfy_table::{CellAlignment, Table, presets};
use punctual_client::wire::{ChannelStatus, ChannelTotals, ChannelsStatus};
use punctual_model::Duration;

pub(super) fn text(status: &ChannelsStatus) -> String {
    let Some(totals) = &status.totals else {
        return "It carries no channels: its configuration names no link ([channels]).\n".into();
    };
    let mut page = String::new();
    if !status.channels.is_empty() {
        page = format!("\n{}\n\n", table(&status.channels));
    }
    page += &of_all(totals);
    let broken: Vec<&ChannelStatus> = status.channels.iter().filter(|one| one.broken).collect();
    for channel in broken.iter().take(8) {
        page += &format!("channel {}: {}\n", channel.grant, channel.verdict);
    }
    page
}

fn of_all(totals: &ChannelTotals) -> String {
    format!(
        "{} of {} promised to {} channels of at most {}, {} kept for best effort; of {} of a CPU they \
         need {:.1} %; {} refusals.\nBest effort that comes in too fast is discarded {}.\n",
        bits(totals.promised_bps),
        bits(totals.link_bps),
        totals.channels,
        totals.room,
        bits(totals.best_effort_bps),
        totals.cpu,
        totals.cpu_ppm as f64 / 10_000.0,
        totals.refused,
        totals.early_discard,
    )
}

fn table(channels: &[ChannelStatus]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "channel", "process", "what", "promised", "p50", "p99", "worst", "jitter", "done", "late",
        "lost", "verdict",
    ]);
    for one in channels {
        let asked = &one.channel;
        let way = if asked.direction == "receive" { "at" } else { "to" };
        let every = Duration::from_nanos(asked.spacing_ns);
        let what = format!(
            "{} {way} {}: {} B every {every}",
            asked.name, asked.address, asked.max_message
        );
        let none = || "–".to_owned();
        let promised = asked.delay_bound_ns;
        let mut row = vec![
            one.grant.to_string(),
            one.pid.to_string(),
            what,
            promised
                .map_or_else(|| "best effort".into(), |ns| Duration::from_nanos(ns).to_string()),
        ];
        match &one.counts {
            None => row.extend(std::iter::repeat_with(none).take(7)),
            Some(counts) => {
                let delays = [
                    counts.p50_delay_ns,
                    counts.p99_delay_ns,
                    counts.worst_delay_ns,
                    counts.worst_jitter_ns,
                ];
                row.extend(delays.map(micros));
                row.extend([counts.done.to_string(), counts.late.to_string()]);
                let lost = counts.lost.iter().map(|(cause, count)| format!("{count} {cause}"));
                let lost = lost.collect::<Vec<_>>().join(", ");
                row.push(if lost.is_empty() { "0".into() } else { lost });
            }
        }
        row.push(one.verdict.clone());
        table.add_row(row);
    }
    for column in [0, 1, 3, 4, 5, 6, 7, 8, 9] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn micros(nanos: u64) -> String {
    format!("{:.1}us", nanos as f64 / 1_000.0)
}

fn bits(bps: u64) -> String {
    match bps {
        0..1_000_000 => format!("{:.1} kbit/s", bps as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} Mbit/s", bps as f64 / 1e6),
        _ => format!("{:.2} Gbit/s", bps as f64 / 1e9),
    }
}
