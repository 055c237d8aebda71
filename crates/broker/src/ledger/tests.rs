//! Tests of what survives, and what does not.

use super::*;
use punctual_client::grant::Token;
use punctual_client::want::RawWant;

fn record(id: GrantId) -> Record {
    Record {
        id,
        token: Token::draw().expect("random"),
        uid: 1_000,
        gids: vec![1_000, 29],
        process: ProcessId { pid: 7, start: 99 },
        thread_start: 99,
        want: RawWant::Reservation { thread: 7, budget_ns: 1, period_ns: 2 },
        old_limits: Some(OldLimits { rtprio: (Some(0), Some(0)), rttime: (None, None) }),
        old_cpus: Some(vec![0, 1]),
        since: 1,
        residual: false,
    }
}

fn refusal(at: u64) -> RefusedStatus {
    RefusedStatus { at, uid: 1, pid: 2, what: "it".into(), why: "no".into() }
}

#[test]
fn what_was_entered_is_there_after_a_reopening_and_numbers_are_never_given_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut given = Vec::new();
    let mut kept: Vec<Record> = Vec::new();
    for _ in 0..3 {
        let (mut ledger, records) = Ledger::open(folder.path()).expect("opens");
        assert_eq!(records, kept);
        for _ in 0..3 {
            given.push(ledger.next_id().expect("a number"));
        }
        let [keep, strike] = [given[given.len() - 1], given[given.len() - 2]].map(record);
        ledger.enter(&keep).expect("entered");
        ledger.enter(&strike).expect("entered");
        ledger.strike(&[strike.id]).expect("struck out");
        kept.push(keep);
    }
    assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
}

#[test]
fn what_is_left_of_some_is_entered_when_others_are_struck_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, _) = Ledger::open(folder.path()).expect("opens");
    let all = [1, 2, 3, 4].map(|id| record(GrantId(id)));
    all.iter().for_each(|record| ledger.enter(record).expect("entered"));
    let thread = punctual_linux::thread::Tid::from_raw(8).expect("positive");
    let left = all[2].left_by(thread, 100);
    ledger.strike_and_keep(&[all[0].id, all[1].id], std::slice::from_ref(&left)).expect("done");
    drop(ledger);
    let (_, records) = Ledger::open(folder.path()).expect("opens");
    assert_eq!(records, [left, all[3].clone()]);
}

#[test]
fn a_second_broker_cannot_open_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_first, _) = Ledger::open(folder.path()).expect("opens");
    assert!(matches!(Ledger::open(folder.path()), Err(LedgerError::Database { .. })));
}

#[test]
fn a_folder_that_others_could_have_written_is_refused() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let folder = tempfile::tempdir().expect("a folder");
    let made = folder.path().join("made");
    drop(Ledger::open(&made).expect("opens"));
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    assert_eq!(mode(&made), 0o700);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&made, &link).expect("ours");
    let refused = |path: &Path| matches!(Ledger::open(path), Err(LedgerError::Unsafe { .. }));
    assert!(refused(&link));
    for open in [0o770, 0o707, 0o1777] {
        fs::set_permissions(&made, fs::Permissions::from_mode(open)).expect("ours");
        assert!(refused(&made), "{open:o}");
    }
}

#[test]
fn the_latest_refusals_are_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ledger, _) = Ledger::open(folder.path()).expect("opens");
    for at in 0..MAX_REFUSALS + 10 {
        ledger.refused(&[refusal(at)]).expect("written");
    }
    let refusals = ledger.refusals().expect("read");
    assert_eq!(refusals.len() as u64, MAX_REFUSALS);
    assert_eq!(refusals[0], refusal(MAX_REFUSALS + 9));
}

#[test]
fn guards_are_remembered_until_the_boot_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let guards = [ProcessId { pid: 7, start: 99 }, ProcessId { pid: 8, start: 100 }];
    let (ledger, _) = Ledger::open(folder.path()).expect("opens");
    assert_eq!(ledger.guards().expect("read"), []);
    ledger.set_guards(&guards).expect("written");
    drop(ledger);
    let (ledger, _) = Ledger::open(folder.path()).expect("opens");
    assert_eq!(ledger.guards().expect("read"), guards);
    begin(&ledger.database, "another boot").expect("written");
    assert_eq!(ledger.guards().expect("read"), []);
}
