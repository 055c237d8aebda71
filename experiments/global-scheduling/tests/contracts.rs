//! Contracts that can be run, and contracts that cannot.

use global_scheduling::study::{self, Seen};
use punctual_model::{Contract, Duration};

const DHALL: &str = include_str!("../contracts/dhall.toml");
const GUAN: &str = include_str!("../contracts/guan.toml");

fn studied(contract: &str, cpus: u16, seed: Option<u64>) -> Result<Vec<Seen>, String> {
    let contract = Contract::parse("c.toml", contract.as_bytes()).expect("valid");
    study::of(&contract, cpus, seed, Duration::from_secs(10))
}

#[test]
fn dhalls_heavy_task_is_late_on_two_cpus_and_not_on_three() {
    for policy in ["rm", "edf"] {
        let contract = DHALL.replace("\"rm\"", &format!("\"{policy}\""));
        let late = |seen: &[Seen]| seen.iter().map(|task| task.seen.late).collect::<Vec<_>>();
        let two = studied(&contract, 2, None).expect("runs");
        assert!(late(&two)[..2] == [0, 0] && late(&two)[2] > 0, "{two:?}");
        assert_eq!((two[2].few_carriers, two[2].workload), (None, None));
        assert_eq!(late(&studied(&contract, 3, None).expect("runs")), [0, 0, 0]);
    }
}

#[test]
fn no_run_goes_beyond_what_is_proven() {
    for (cpus, seed) in [(2, None), (2, Some(1)), (3, None), (3, Some(2))] {
        for Seen { task, few_carriers, workload, seen } in studied(GUAN, cpus, seed).expect("runs")
        {
            let longest = seen.response_time.max();
            assert!(seen.jobs > 100 && seen.late == 0, "{task:?} {seen:?}");
            assert!(longest <= few_carriers && longest <= workload, "{task:?} {seen:?}");
        }
    }
}

#[test]
fn contracts_with_more_than_tasks_are_refused() {
    let channels = "[sending]\nbandwidth = '100mbit/s'\npacket = '1420B'\n[sending.costs]\nswitch = '1us'\n\
        cache = '1us'\nfirst_packet = '1us'\npacket = '1us'\nlink_scheduling = '1us'\n\
        [[channel]]\nname = 'c'\nmax_message = '1KiB'\nmin_inter_arrival = '20ms'\ndelay_bound = '20ms'\n";
    let reservation = "[[reservation]]\nname = 'r'\nbudget = '1ms'\nperiod = '10ms'\n";
    for (contract, why) in [
        (DHALL.replace("\"rm\"", "\"fifo\""), "no \"fifo\""),
        (DHALL.replace("\"rm\"", "\"edf-vd\""), "no \"edf-vd\""),
        (format!("{DHALL}{channels}"), "channels"),
        (format!("{DHALL}{reservation}"), "reservations"),
        ("[[task]]\nname = 'tiny'\nperiod = '2ns'\nwcet = '1ns'\n".into(), "too many"),
    ] {
        let said = studied(&contract, 2, None).expect_err(why);
        assert!(said.contains(why), "{said}");
    }
}
