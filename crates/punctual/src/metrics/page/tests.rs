use std::collections::BTreeMap;

use super::*;
use crate::watch::JobEvent;
use punctual_client::grant::GrantId;
use punctual_client::wire::{GuardStatus, Totals};
use punctual_model::Duration;

fn status(grants: Vec<GrantStatus>) -> Status {
    let totals = Totals {
        cpus: 2,
        reservable_ppm: 900_000,
        context_switch_ns: 5_000,
        context_switch_from: "a test".into(),
        granted_ppm: 250_000,
        grants: grants.len() as u64,
        connections: 3,
        quota_ppm: 0,
        yours_ppm: 0,
        refused: 7,
        guard: GuardStatus { looks: 40, late: 3, worst_ns: 2_500_000 },
    };
    Status { totals, grants, more: false, refusals: Vec::new() }
}

fn grant(number: u64, used_ppm: Option<u64>) -> GrantStatus {
    GrantStatus {
        grant: GrantId(number),
        kind: Kind::Reservation,
        uid: 1_000,
        pid: 1,
        thread: 1,
        what: "2ms/8ms".into(),
        share_ppm: 250_000,
        budget_ns: Some(2_000_000),
        period_ns: Some(8_000_000),
        used_ppm,
        cpu: None,
        since: 0,
        connected: true,
    }
}

fn broker(grants: Vec<GrantStatus>) -> BrokerState {
    let channels = ChannelsStatus { totals: None, channels: Vec::new(), more: false };
    BrokerState { status: status(grants), channels }
}

#[test]
fn the_page_has_the_brokers_numbers() {
    let grants = vec![grant(4, Some(200_000)), grant(5, None)];
    let page = Page { broker: Some(broker(grants)), ..Page::default() }.text();
    for line in [
        "punctual_broker_up 1.0",
        "punctual_capacity_cpus 1.8",
        "punctual_granted_cpus 0.25",
        "punctual_grants 2.0",
        "punctual_refusals_total{of=\"cpu\"} 7",
        "punctual_guard_looks_total 40",
        "punctual_guard_late_looks_total 3",
        "punctual_guard_lateness_seconds 0.0025",
        "punctual_grant_budget_cpus{grant=\"5\",kind=\"reservation\",user=\"1000\"} 0.25",
        "punctual_grant_used_cpus{grant=\"4\",kind=\"reservation\",user=\"1000\"} 0.2",
        "punctual_observer_up 0.0",
        "# TYPE punctual_refusals counter",
        "# UNIT punctual_grant_used_cpus cpus",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}\n{page}");
    }
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    // An unknown value is absent, not zero.
    assert!(!page.contains("used_cpus{grant=\"5\""), "{page}");
    assert!(!page.contains("punctual_channel") && !page.contains("punctual_jobs"), "{page}");
}

#[test]
fn a_hostile_name_stays_a_value() {
    let mut tasks = TaskAccounts::default();
    tasks.set_names(BTreeMap::from([(1, "a\"} 1\nb{c=\"\\".to_owned())]));
    let wakeup_latency = Duration::from_micros(30);
    tasks.add(&JobEvent::Began { thread: 1, wakeup_latency });
    let observer = Observer { tasks, ..Observer::default() };
    let page = Page { observer: Some(observer), ..Page::default() }.text();
    let name = r#"task="a\"} 1\nb{c=\"\\""#;
    for line in [
        format!("punctual_jobs_total{{{name}}} 0"),
        format!("punctual_deadline_misses_total{{{name},cause=\"softirq\"}} 0"),
        format!("punctual_wakeup_latency_seconds_count{{{name}}} 1"),
        format!("punctual_wakeup_latency_seconds_sum{{{name}}} 0.00003"),
    ] {
        assert!(page.contains(&format!("\n{line}\n")), "{line}\n{page}");
    }
    let bucket = |le: &str| page.lines().find(|line| line.contains(&format!("le=\"{le}\"")));
    assert!(bucket("0.000025").is_some_and(|line| line.ends_with(" 0")), "{page}");
    assert!(bucket("0.00005").is_some_and(|line| line.ends_with(" 1")), "{page}");
    assert!(bucket("+Inf").is_some_and(|line| line.ends_with(" 1")), "{page}");
}

#[test]
fn the_number_of_rows_is_bounded() {
    let grants: Vec<GrantStatus> = (0..1_000).map(|number| grant(number, Some(1))).collect();
    let page = Page { broker: Some(broker(grants)), ..Page::default() }.text();
    let rows = page.lines().filter(|line| line.starts_with("punctual_grant_budget_cpus{"));
    assert_eq!(rows.count(), MOST_ROWS);
    assert!(page.contains("\npunctual_grants_left_out 744.0\n"), "{page}");
}
