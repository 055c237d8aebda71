//! Turns the broker's answers into rows.

use std::collections::BTreeMap;

use punctual_client::want::Kind;
use punctual_client::wire::{ChannelStatus, ChannelsStatus, GrantStatus, Status};
use punctual_model::{Duration, Service};
use punctual_trace::Promise;

use super::account::Account;
use crate::watch::observed::tree;
use crate::watch::picture::{Key, Row};
use crate::watch::words::{percent, time};

/// Describes the totals of the host.
pub(super) fn host(status: &Status) -> String {
    let totals = &status.totals;
    format!(
        "{} of {} granted on {} CPUs, {} grants, {} refused",
        percent(totals.granted_ppm),
        percent(totals.reservable_ppm * u64::from(totals.cpus)),
        totals.cpus,
        totals.grants,
        totals.refused
    )
}

/// Describes the totals of the link, if there is one.
pub(super) fn link(channels: &ChannelsStatus) -> Option<String> {
    let totals = channels.totals.as_ref()?;
    let mbit = |bps: u64| bps as f64 / 1e6;
    let (promised, link) = (mbit(totals.promised_bps), mbit(totals.link_bps));
    Some(format!("link: {promised:.1} of {link:.0} Mbit/s, {} channels", totals.channels))
}

/// Returns the grant's thread and the promise it is held to.
pub(super) fn target(grant: &GrantStatus) -> (u32, Promise) {
    (thread_of(grant), promise(grant))
}

/// Returns the promise of a grant: the deadline of each job is the period, and its wcet the budget.
pub(crate) fn promise(grant: &GrantStatus) -> Promise {
    let period = grant.period_ns.map(Duration::from_nanos);
    let wcet = grant.budget_ns.map(Service::from_nanos);
    Promise { period: None, relative_deadline: period, wcet }
}

/// Returns the grant's thread. The kernel's ids are positive; an invalid one becomes an id of no
/// thread.
pub(crate) fn thread_of(grant: &GrantStatus) -> u32 {
    u32::try_from(grant.thread).unwrap_or(u32::MAX)
}

/// Returns a grant's row.
pub(super) fn grant(grant: &GrantStatus, accounts: &BTreeMap<u32, Account>) -> Row {
    let thread = thread_of(grant);
    let kind = match grant.kind {
        Kind::Reservation => "reserve",
        Kind::Upcalls => "upcalls",
        Kind::Priority => "prio",
        Kind::Channels => "channel",
    };
    let name = tree::name(thread).unwrap_or_else(|| format!("thread {thread}"));
    let mut row = Row::new(Key::Grant(grant.grant.0), kind, name, grant.what.clone());
    row.cpu = grant.cpu;
    (row.granted_ppm, row.used_ppm) = (Some(grant.share_ppm), grant.used_ppm);
    row.facts = vec![
        ("grant", grant.grant.to_string()),
        ("thread", format!("{thread} of process {}, user {}", grant.pid, grant.uid)),
        ("connected", if grant.connected { "yes" } else { "no" }.to_owned()),
    ];
    if let Some(account) = accounts.get(&thread) {
        account.fill(&mut row);
    }
    row
}

/// Returns a channel's row, with its messages as its jobs.
pub(super) fn channel(status: &ChannelStatus) -> Row {
    let asked = &status.channel;
    let bound = asked.delay_bound_ns;
    let way = if asked.direction == "receive" { "at" } else { "to" };
    let what = format!(
        "{} B every {} {way} {}",
        asked.max_message,
        Duration::from_nanos(asked.spacing_ns),
        asked.address
    );
    let mut row = Row::new(Key::Grant(status.grant.0), "channel", asked.name.clone(), what);
    row.facts = vec![
        ("grant", status.grant.to_string()),
        ("process", format!("{}, user {}", status.pid, status.uid)),
        ("promised", bound.map_or_else(|| "best effort".to_owned(), time)),
        ("verdict", status.verdict.clone()),
    ];
    let Some(counts) = &status.counts else { return row };
    (row.jobs, row.late) = (Some(counts.done), bound.map(|_| counts.late));
    let worst = i64::try_from(counts.worst_delay_ns).unwrap_or(i64::MAX);
    row.slack_ns = bound.map(|bound| i64::try_from(bound).unwrap_or(i64::MAX) - worst);
    let lost = counts.lost.iter().max_by_key(|(_, count)| *count);
    row.cause = lost.map(|(cause, _)| cause.clone());
    let lost = counts.lost.iter().map(|(cause, count)| format!("{count} {cause}"));
    let lost = lost.collect::<Vec<_>>().join(", ");
    let delays = [counts.p50_delay_ns, counts.p99_delay_ns, counts.worst_delay_ns].map(time);
    row.facts.extend([
        ("delay", format!("p50 {}, p99 {}, worst {}", delays[0], delays[1], delays[2])),
        ("jitter", time(counts.worst_jitter_ns)),
        ("offered", format!("{}, {} taken", counts.offered, counts.taken)),
        ("lost", if lost.is_empty() { "nothing".to_owned() } else { lost }),
    ]);
    row
}
