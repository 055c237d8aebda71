//! Turns the state of the host into the rows of the view.

use std::collections::BTreeMap;

use punctual::watch::{HostState, ThreadJobs, ThreadState, thread_of};
use punctual_client::want::Kind;
use punctual_client::wire::{ChannelStatus, ChannelsStatus, GrantStatus, Status};
use punctual_frontend::hint::told;
use punctual_model::Duration;
use punctual_trace::cause::Verdict;

use super::picture::{Key, Late, Picture, Row};
use super::words::{percent, time};

/// Returns the picture of a state.
pub(super) fn picture(state: &HostState) -> Picture {
    let mut picture = Picture::default();
    let threads = &state.jobs.threads;
    let mut granted = &[][..];
    match &state.broker {
        Ok(broker) => {
            picture.host.push(host(&broker.status));
            picture.host.extend(link(&broker.channels));
            granted = &broker.status.grants[..];
            picture.rows.extend(granted.iter().map(|one| grant(one, threads)));
            picture.rows.extend(broker.channels.channels.iter().map(channel));
        }
        Err(why) => picture.notes.push(told(why)),
    }
    let is_granted = |id: u32| {
        granted.iter().any(|grant| u32::try_from(grant.thread).is_ok_and(|one| one == id))
    };
    let others = state.threads.iter().filter(|one| !is_granted(one.thread));
    picture.rows.extend(others.map(|one| thread(one, threads)));
    if let Some(root) = state.ended {
        picture.notes.push(format!("Process {root} and what it started have ended."));
    }
    if let Err(why) = &state.jobs.counts {
        picture.notes.push(format!("Jobs, latencies and causes are not seen: {why}"));
    }
    picture
}

/// Describes the totals of the host.
fn host(status: &Status) -> String {
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
fn link(channels: &ChannelsStatus) -> Option<String> {
    let totals = channels.totals.as_ref()?;
    let mbit = |bps: u64| bps as f64 / 1e6;
    let (promised, link) = (mbit(totals.promised_bps), mbit(totals.link_bps));
    Some(format!("link: {promised:.1} of {link:.0} Mbit/s, {} channels", totals.channels))
}

/// Returns a grant's row.
fn grant(grant: &GrantStatus, threads: &BTreeMap<u32, ThreadJobs>) -> Row {
    let thread = thread_of(grant);
    let kind = match grant.kind {
        Kind::Reservation => "reserve",
        Kind::Upcalls => "upcalls",
        Kind::Priority => "prio",
        Kind::Channels => "channel",
        Kind::Program => "program",
    };
    let jobs = threads.get(&thread);
    let name = jobs.and_then(|jobs| jobs.name.clone());
    let name = name.unwrap_or_else(|| format!("thread {thread}"));
    let mut row = Row::new(Key::Grant(grant.grant.0), kind, name, grant.what.clone());
    row.cpu = grant.cpu;
    (row.granted_ppm, row.used_ppm) = (Some(grant.share_ppm), grant.used_ppm);
    row.facts = vec![
        ("grant", grant.grant.to_string()),
        ("thread", format!("{thread} of process {}, user {}", grant.pid, grant.uid)),
        ("connected", if grant.connected { "yes" } else { "no" }.to_owned()),
    ];
    if let Some(jobs) = jobs {
        add_jobs(&mut row, jobs);
    }
    row
}

/// Returns the row of a thread that has no grant.
fn thread(state: &ThreadState, threads: &BTreeMap<u32, ThreadJobs>) -> Row {
    let ThreadState { process, thread, name, used_ppm } = state;
    let name = name.clone().unwrap_or_else(|| thread.to_string());
    let what = format!("thread {thread} of process {process}");
    let mut row = Row::new(Key::Thread(*thread), "thread", name, what);
    row.used_ppm = *used_ppm;
    if let Some(jobs) = threads.get(thread) {
        add_jobs(&mut row, jobs);
    }
    row
}

/// Adds to a row what was counted of the thread's jobs.
fn add_jobs(row: &mut Row, watched: &ThreadJobs) {
    let Some(account) = &watched.account else { return };
    row.jobs = Some(account.jobs);
    row.late = watched.late();
    row.slack_ns = watched.slack_ns();
    row.latencies = account.latencies.iter().map(|latency| latency.as_nanos()).collect();
    row.late_jobs = account.late_jobs.iter().map(late_job).collect();
    // Of equal counts the first name wins, so the display does not flicker.
    let most =
        account.causes.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(*name)));
    row.cause = most.map(|(cause, _)| (*cause).to_owned());
    let causes = account.causes.iter().map(|(cause, count)| format!("{count} {cause}"));
    let causes = causes.collect::<Vec<_>>().join(", ");
    if !causes.is_empty() {
        row.facts.push(("late by", causes));
    }
    if let Some(relative_deadline) = watched.promise.relative_deadline {
        row.facts.push(("deadline", relative_deadline.to_string()));
    }
}

fn late_job(verdict: &Verdict) -> Late {
    let shares = verdict.shares.iter().filter(|share| !share.share.is_zero());
    Late {
        job: verdict.late.job.index,
        tardiness_ns: verdict.late.tardiness().as_nanos(),
        own_ns: verdict.own.as_nanos(),
        causes: shares.map(|share| (share.share.as_nanos(), share.cause.to_string())).collect(),
    }
}

/// Returns a channel's row, with its messages as its jobs.
fn channel(status: &ChannelStatus) -> Row {
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

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::watch::{JobAccount, JobEvent};
    use punctual_model::{Instant, JobId};
    use punctual_trace::cause::{LateJob, Share, Spent};

    fn ended(response_us: u64, late: Option<Spent>) -> JobEvent {
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let late = late.map(|cause| {
            let job = LateJob {
                job: JobId { task: 7, index: 3 },
                release: at(0),
                absolute_deadline: at(1_000),
                end: at(response_us),
                wcet: None,
            };
            let took = job.tardiness();
            let share = Share { cause, took, times: 1, longest_at: at(0), share: took };
            Box::new(Verdict { late: job, own: Duration::from_micros(1), shares: vec![share] })
        });
        JobEvent::Ended { thread: 7, response_time: Duration::from_micros(response_us), late }
    }

    fn row(jobs: &ThreadJobs) -> Row {
        let state = ThreadState { process: 7, thread: 7, name: None, used_ppm: None };
        thread(&state, &BTreeMap::from([(7, jobs.clone())]))
    }

    #[test]
    fn jobs_are_counted_and_the_tightest_gives_the_slack() {
        let mut jobs = ThreadJobs { account: Some(JobAccount::default()), ..Default::default() };
        let add = |jobs: &mut ThreadJobs, event| {
            jobs.account.as_mut().expect("observed").add(&event);
        };
        add(&mut jobs, ended(900, None));
        // Without a promise no job is late, and there is no slack.
        assert_eq!((row(&jobs).late, row(&jobs).slack_ns), (None, None));
        jobs.promise.relative_deadline = Some(Duration::from_millis(1));
        assert_eq!((row(&jobs).late, row(&jobs).slack_ns), (Some(0), Some(100_000)));
        add(&mut jobs, ended(1_250, Some(Spent::Stolen)));
        add(&mut jobs, ended(1_100, Some(Spent::SoftIrq(3))));
        add(&mut jobs, ended(1_100, Some(Spent::SoftIrq(1))));
        let shown = row(&jobs);
        assert_eq!((shown.jobs, shown.late, shown.slack_ns), (Some(4), Some(3), Some(-250_000)));
        assert_eq!(shown.cause.as_deref(), Some("softirq"));
        assert_eq!(shown.late_jobs[2].tardiness_ns, 250_000);
        assert!(shown.facts.contains(&("late by", "2 softirq, 1 stolen".into())), "{shown:?}");
        // Without an observer there is nothing to show, even with a promise.
        jobs.account = None;
        assert_eq!((row(&jobs).jobs, row(&jobs).late, row(&jobs).slack_ns), (None, None, None));
    }
}
