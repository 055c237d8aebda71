use super::*;

fn words(of: impl Fn(usize) -> u64) -> Vec<AtomicU64> {
    (0..WORDS).map(|i| AtomicU64::new(of(i))).collect()
}

fn at(level: u8, from: u64) -> Option<Entry> {
    Some(Entry { level, from })
}

fn nothing(_vain: usize) {}

const NONE: [Option<Entry>; THEN] = [None; THEN];

#[test]
fn only_a_higher_level_whose_instant_has_passed_is_due() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    table.begin(0);
    table.begin(1);
    let reader = Patience::new(0);
    table.publish(1, at(40, 10_000), [at(60, 20_000), None, None]);
    assert!(!reader.runs_out(table, 39, 9_999));
    assert!(!reader.runs_out(table, 40, 15_000), "equals do not give way");
    // Rounded up to 256, so never before its instant.
    assert!(reader.runs_out(table, 39, 10_240));
    assert!(reader.runs_out(table, 59, 20_480));
    assert!(!Patience::new(1).runs_out(table, 39, u64::MAX), "nobody gives way to himself");
    table.clear(1);
    assert!(!reader.runs_out(table, 0, u64::MAX));
}

#[test]
fn a_thread_deserves_the_highest_level_of_what_was_released() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    table.begin(1);
    assert_eq!(table.deserved(1, u64::MAX), None, "it runs");
    table.publish(1, at(40, 10_240), [at(60, 20_480), at(70, 30_720), None]);
    let deserved = [(0, 40), (10_240, 40), (20_479, 40), (20_480, 60), (30_720, 70)];
    for (now, level) in deserved {
        assert_eq!(table.deserved(1, now), Some(level), "at {now}");
    }
}

#[test]
fn it_is_crowded_only_where_another_slot_is_more_urgent_and_near() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    table.begin(3);
    table.publish(3, at(40, 10_240), [at(60, 20_480), None, None]);
    assert!(table.crowded(0, 39, 10_000, 240));
    assert!(!table.crowded(0, 39, 10_000, 239));
    assert!(!table.crowded(0, 40, 10_000, 240), "not more urgent");
    assert!(table.crowded(0, 40, 20_500, 20), "by what comes then");
    assert!(!table.crowded(3, 0, 10_240, 0), "oneself is no crowd");
}

#[test]
fn never_is_never() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    table.begin(1);
    for from in [u64::MAX, u64::MAX - 1, u64::MAX - 254] {
        table.publish(1, at(79, from), [at(0, 0), None, None]);
        assert!(!Patience::new(0).runs_out(table, 1, u64::MAX), "{from}");
    }
}

#[test]
fn a_stale_entry_is_tried_each_time_its_age_has_doubled() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    table.begin(1);
    table.publish(1, at(40, 0), NONE);
    let mut reader = Patience::new(0);
    let mut tries = 0;
    for now in (1_000..).step_by(1_000).take(1_000_000) {
        if reader.runs_out(table, 10, now) {
            let mut vain = Vec::new();
            reader.gave_way(table, 10, now, now + 500, |slot| vain.push(slot));
            assert_eq!(vain, [1]);
            tries += 1;
        }
    }
    assert!((15..=21).contains(&tries), "{tries} tries in a million yield points");
    // The process runs again: a new entry is a new start.
    table.publish(1, at(40, 2_000_000_000), NONE);
    assert!(reader.runs_out(table, 10, 2_000_000_256));
}

#[test]
fn an_entry_that_changed_meanwhile_was_not_tried_in_vain() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    table.begin(1);
    table.publish(1, at(40, 1_000), NONE);
    let mut reader = Patience::new(0);
    assert!(reader.runs_out(table, 10, 2_000));
    // It ran, and waits for its next release, which has passed too by now.
    table.publish(1, at(40, 3_000), NONE);
    reader.gave_way(table, 10, 2_000, 4_000, |slot| panic!("{slot} moved"));
    assert!(reader.runs_out(table, 10, 4_000));
}

#[test]
fn any_content_is_survived_and_tried_a_bounded_number_of_times() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state ^ (state >> 29)
    };
    let noise: Vec<u64> = (0..WORDS).map(|_| random()).collect();
    for words in [words(|_| u64::MAX), words(|i| noise[i]), words(|i| noise[i] & 0xffff_ffff)] {
        let table = Releases::new(&words);
        let mut reader = Patience::new(3);
        let mut tries = 0;
        for now in (1 << 32..1u64 << 62).step_by(1 << 50) {
            if reader.runs_out(table, 2, now) {
                reader.gave_way(table, 2, now, now + 1, nothing);
                tries += 1;
            }
        }
        assert!(tries < 4_000, "{tries} tries in 4,096 yield points");
        reader.gave_way(table, 0, u64::MAX, u64::MAX, nothing);
        for slot in 0..SLOTS {
            let _ = (table.on_offer(slot), table.deserved(slot, 0), table.is_used(slot));
        }
    }
}

fn handoff(priority: u8, turn: u8) -> Handoff {
    Handoff { thread: 4_194_303, cpu: 8_191, priority, since: 65_535, turn }
}

#[test]
fn a_handoff_goes_to_one_thread_and_comes_back_with_the_priority_set() {
    let words = words(|_| 0);
    let table = Releases::new(&words);
    let offered = handoff(80, 30);
    table.offer(255, offered);
    assert_eq!(table.on_offer(255), Some(offered), "each field is kept");
    assert_eq!(table.take_back(255, Some(offered)), Taken::AsSeen);
    assert_eq!(table.on_offer(255), None);
    assert!(!table.claim(255, offered), "their owner has them");

    table.offer(255, offered);
    assert!(table.claim(255, offered));
    assert!(!table.claim(255, offered), "somebody has them");
    assert_eq!(table.on_offer(255), None);
    assert!(table.give_back(255, offered, 40));
    let seen = table.on_offer(255).expect("given back");
    assert_eq!((seen.priority, seen.thread), (40, offered.thread));
    assert!(table.claim(255, seen));
    assert!(table.give_back(255, seen, 60));
    assert_eq!(table.take_back(255, Some(offered)), Taken::Changed);

    table.offer(255, offered);
    assert!(table.claim(255, offered));
    assert_eq!(table.take_back(255, Some(offered)), Taken::InDoubt, "he was killed");
    let again = handoff(80, 28);
    table.offer(255, again);
    assert!(!table.give_back(255, offered, 40));
    assert_eq!(table.on_offer(255), Some(again), "what comes too late changes nothing");
}

#[test]
fn the_age_of_an_offer_is_right_to_a_step_and_over_the_turn() {
    let step = 1u64 << 20;
    for since in [0, step, 65_535 * step, 1 << 50] {
        let offered = Handoff { since: Handoff::stamp(since), ..handoff(2, 0) };
        for age in [0, 1, step, 250_000_000] {
            let said = offered.age(since + age);
            assert!(said <= age + step && age < said + step, "{said} for {age} after {since}");
        }
    }
}
