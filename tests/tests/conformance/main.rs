//! Runs one table of scenarios on the simulator and on this kernel, and expects the same decisions
//! in the same order.
//!
//! The two drivers share the policies but no line of their loops. The comparison covers what
//! happened to which job, not when. `timetable` does the same for the dispatcher of reservations.

mod in_virtual_time;
mod live;
mod scenario;
mod timetable;

use punctual_linux::sched::{self, Class};
use punctual_model::Duration;
use punctual_runtime::Placement;
use punctual_runtime::level_order::RUNNING;
use punctual_trace::{Event, Kind};

use scenario::{SCENARIOS, Scenario};

/// The lengths of a unit to try. If the host stalls for a few units, the decisions are right but
/// different, so a scenario that differs is run again with longer units; the longest counts.
const UNITS_MS: [u64; 3] = [3, 12, 40];

type Decision = (u32, u64, Kind);

fn decisions(events: &[Event]) -> Vec<Decision> {
    events.iter().map(|event| (event.job.task, event.job.index, event.kind)).collect()
}

fn simulated(scenario: &Scenario) -> Vec<Decision> {
    decisions(&in_virtual_time::run(scenario, Duration::from_millis(1)))
}

#[test]
fn decisions_do_not_depend_on_the_unit() {
    for scenario in SCENARIOS {
        let decided = simulated(scenario);
        assert!(decided.len() >= 3, "{}", scenario.name);
        let slower = decisions(&in_virtual_time::run(scenario, Duration::from_millis(40)));
        assert_eq!(decided, slower, "{}", scenario.name);
    }
}

#[test]
fn every_kind_of_decision_is_in_some_scenario() {
    let all: Vec<Decision> = SCENARIOS.iter().flat_map(simulated).collect();
    let is_there = |like: Kind| {
        let same = |kind: &Kind| std::mem::discriminant(kind) == std::mem::discriminant(&like);
        all.iter().any(|(_, _, kind)| same(kind))
    };
    for kind in [
        Kind::Start,
        Kind::GiveWay,
        Kind::Resume,
        Kind::Complete,
        Kind::Overrun { jobs: 1 },
        Kind::Skip { jobs: 1 },
        Kind::Abort,
        Kind::Contained,
    ] {
        assert!(is_there(kind), "{kind:?}");
    }
}

#[test]
fn this_kernel_and_virtual_time_decide_the_same() {
    let class = Class::Fifo { priority: RUNNING };
    let placement = match sched::try_out(class) {
        Ok(()) => Placement::Upcalls,
        Err(refused) => {
            println!("as ordinary threads, without the scenarios of containment: {refused}");
            Placement::Ordinary
        }
    };
    let needs_guard = |scenario: &&Scenario| scenario.containment.is_some();
    for scenario in SCENARIOS {
        if placement == Placement::Ordinary && needs_guard(&scenario) {
            continue;
        }
        let expected = simulated(scenario);
        let mut decided = Vec::new();
        for unit in UNITS_MS.map(Duration::from_millis) {
            decided = decisions(&live::run(scenario, unit, placement));
            if decided == expected {
                break;
            }
            println!("{}: differs at {unit} a unit: {decided:?}", scenario.name);
        }
        assert_eq!(decided, expected, "{}", scenario.name);
    }
}
