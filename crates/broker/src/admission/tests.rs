use punctual_analysis::Shortfall;

use super::*;
use crate::config::{Quota, QuotaOf};
use punctual_client::want::Kind;
use punctual_model::{Contract, Duration, HostProfile, Service, Upcall, UpcallSpec};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const HOST: HostProfile = HostProfile::ideal(2);

fn requester(uid: u32, share_ppm: u64) -> Requester {
    let quota = Quota {
        share_ppm,
        max_grants: 1_000,
        shortest_period: Duration::from_micros(100),
        allow: [Kind::Upcalls, Kind::Reservation, Kind::Priority].into(),
        ..Quota::default()
    };
    Requester { uid, quota: QuotaOf { quota, group: None } }
}

fn upcall(period_us: u64, batch: u32, quantum: u32, pdu_us: u64) -> Upcall {
    Upcall::new(UpcallSpec {
        name: "u".into(),
        period: Duration::from_micros(period_us),
        batch,
        quantum,
        time_per_pdu: Service::from_micros(pdu_us),
    })
    .expect("valid")
}

fn reservation(text: &str) -> Guarantee {
    Guarantee::Reservation(text.parse().expect("valid"))
}

const NOW: Instant = Instant::from_nanos(1);

#[test]
fn each_rule_of_a_quota_is_held() {
    let admission = || AdmissionState::new(HOST, UpcallOrder::LevelOrder);
    let mut requester = requester(1, 300_000);
    let half = Guarantee::Upcalls(vec![upcall(10_000, 5, 1, 1_000)]);
    let refused = admission().admit(GrantId(1), &requester, &half, NOW).expect_err("50 % of 30 %");
    assert_eq!((refused.test, refused.shortfall), ("quota", Some(Shortfall::Share(200_000))));
    let fast = Guarantee::Upcalls(vec![upcall(50, 1, 1, 1)]);
    assert!(
        admission()
            .admit(GrantId(1), &requester, &fast, NOW)
            .expect_err("short")
            .why
            .contains("50us")
    );
    let tiny = admission().admit(GrantId(1), &requester, &reservation("2830ns/91295us"), NOW);
    let tiny = tiny.expect_err("a tick beyond it is waited for through two minutes");
    assert!(tiny.why.contains("2.83us/91.295ms is less than 0.4 % of a CPU"), "{}", tiny.why);
    admission().admit(GrantId(1), &requester, &reservation("40us/10ms"), NOW).expect("the least");
    requester.quota.quota.allow.remove(&Kind::Reservation);
    let refused = admission().admit(GrantId(1), &requester, &reservation("1ms/10ms"), NOW);
    assert_eq!(refused.expect_err("not allowed").why, "this user may not have reservations");
    requester.quota.quota.max_grants = 1;
    let small = Guarantee::Priority { share_ppm: 10_000 };
    let mut admission = admission();
    admission.admit(GrantId(1), &requester, &small, NOW).expect("the first");
    assert_eq!(
        admission.admit(GrantId(2), &requester, &small, NOW).expect_err("the second").test,
        "quota"
    );
    admission.change(GrantId(1), &requester, &small, NOW).expect("not one more");
}

#[test]
fn a_group_shares_what_it_has_together() {
    let mut admission = AdmissionState::new(HOST, UpcallOrder::LevelOrder);
    let member = |uid| {
        let mut requester = requester(uid, 300_000);
        requester.quota.group = Some(29);
        requester.quota.quota.together_ppm = Some(500_000);
        requester
    };
    admission.admit(GrantId(1), &member(1), &reservation("3ms/10ms"), NOW).expect("30 %");
    let refused = admission.admit(GrantId(2), &member(2), &reservation("3ms/10ms"), NOW);
    assert_eq!(refused.expect_err("60 %").shortfall, Some(Shortfall::Share(100_000)));
    admission.admit(GrantId(2), &member(2), &reservation("2ms/10ms"), NOW).expect("50 %");
}

#[test]
fn upcalls_of_one_thread_stay_on_one_cpu_and_fill_both() {
    let mut admission = AdmissionState::new(HOST, UpcallOrder::LevelOrder);
    let requester = requester(1, 2_000_000);
    let most = Guarantee::Upcalls(vec![upcall(10_000, 8, 1, 1_000)]);
    let cpus =
        [1, 2].map(|id| admission.admit(GrantId(id), &requester, &most, NOW).expect("one each"));
    assert_ne!(cpus[0], cpus[1]);
    assert!(admission.admit(GrantId(3), &requester, &most, NOW).is_err());
    admission.release(GrantId(1), NOW);
    assert!(
        admission.admit(GrantId(3), &requester, &most, NOW).is_err(),
        "what it did may be felt"
    );
    // A job of 8 ms was pending at most.
    let later = NOW + Duration::from_millis(8);
    assert_eq!(admission.admit(GrantId(3), &requester, &most, later), Ok(cpus[0]));
}

/// 5 of 10 ms above 4 of 20 ms on each CPU. Who gives 4 of the 5 back at once after a job gets nobody else a place that the
/// slow one would have to wait for as well.
#[test]
fn what_a_change_gives_back_is_free_when_others_feel_it_no_more() {
    let mut admission =
        AdmissionState::new(HostProfile { cpus: 1, ..HOST }, UpcallOrder::LevelOrder);
    let requester = requester(1, 2_000_000);
    let of = |period: u64, batch: u32| Guarantee::Upcalls(vec![upcall(period, batch, 1, 1_000)]);
    admission.admit(GrantId(1), &requester, &of(20_000, 6), NOW).expect("alone");
    admission.admit(GrantId(2), &requester, &of(10_000, 5), NOW).expect("beside it");
    admission.change(GrantId(2), &requester, &of(10_000, 1), NOW).expect("less is never refused");
    assert_eq!(admission.granted_ppm(), 400_000);
    let denied =
        admission.admit(GrantId(3), &requester, &of(10_000, 4), NOW).expect_err("it is felt");
    assert_eq!(denied.test, "response-time");
    assert!(!admission.settle(NOW + Duration::from_millis(5)));
    let later = NOW + Duration::from_millis(20);
    assert!(admission.settle(later));
    admission.admit(GrantId(3), &requester, &of(10_000, 4), later).expect("nothing is felt of it");
}

#[test]
fn a_reservation_is_counted_until_the_kernel_gives_its_bandwidth_back() {
    let mut admission = AdmissionState::new(HOST, UpcallOrder::LevelOrder);
    let requester = requester(1, 2_000_000);
    for id in [1, 2] {
        admission.admit(GrantId(id), &requester, &reservation("8ms/10ms"), NOW).expect("160 %");
    }
    admission.release(GrantId(1), NOW);
    let again = reservation("8ms/10ms");
    assert!(admission.admit(GrantId(3), &requester, &again, NOW).is_err(), "it lingers");
    let later = NOW + Duration::from_millis(10);
    admission.admit(GrantId(3), &requester, &again, later).expect("a period later");
}

#[test]
fn what_is_left_behind_counts_until_it_has_left() {
    let mut admission = AdmissionState::new(HOST, UpcallOrder::LevelOrder);
    let mut user = requester(1, 800_000);
    user.quota.group = Some(29);
    user.quota.quota.max_grants = 2;
    user.quota.quota.together_ppm = Some(800_000);
    let had: punctual_model::Reservation = "8ms/10ms".parse().expect("valid");
    admission.admit(GrantId(1), &user, &Guarantee::Reservation(had), NOW).expect("80 %");
    admission.remains(GrantId(1), &user, had, "2ms/100ms".parse().expect("valid"), NOW);
    assert_eq!((admission.granted_ppm(), admission.of_user(1)), (0, 0));
    let later = NOW + Duration::from_millis(10);
    let quota = |user: &Requester, what: &str| {
        admission
            .clone()
            .admit(GrantId(2), user, &reservation(what), later)
            .map_err(|no| no.shortfall)
    };
    assert_eq!(
        quota(&user, "79ms/100ms"),
        Err(Some(Shortfall::Share(10_000))),
        "in the user's quota"
    );
    let member = Requester { uid: 2, ..user.clone() };
    assert_eq!(quota(&member, "79ms/100ms"), Err(Some(Shortfall::Share(10_000))), "in the group's");
    quota(&user, "78ms/100ms").expect("beside it");
    admission
        .admit(GrantId(2), &user, &Guarantee::Priority { share_ppm: 10_000 }, later)
        .expect("fits");
    let third =
        admission.admit(GrantId(3), &user, &Guarantee::Priority { share_ppm: 10_000 }, later);
    assert_eq!(third.expect_err("three").test, "quota", "it is one of the grants");

    // An upcall that cannot wait for 8 ms.
    let urgent = Guarantee::Upcalls(vec![upcall(10_000, 3, 1, 1_000)]);
    let other = requester(3, 900_000);
    let denied = admission.admit(GrantId(4), &other, &urgent, later).expect_err("beneath it");
    assert_eq!(denied.test, "response-time");
    admission.has_left(GrantId(1), NOW);
    admission.admit(GrantId(4), &other, &urgent, later).expect("it has left");
    admission
        .admit(GrantId(5), &user, &Guarantee::Priority { share_ppm: 10_000 }, later)
        .expect("two");
}

#[test]
fn every_offer_is_admitted() {
    for order in [UpcallOrder::LevelOrder, UpcallOrder::FixedLevel] {
        let mut admission = AdmissionState::new(HOST, order);
        let requester = requester(1, 900_000);
        admission.admit(GrantId(1), &requester, &reservation("3ms/10ms"), NOW).expect("fits");
        admission
            .admit(
                GrantId(2),
                &requester,
                &Guarantee::Upcalls(vec![upcall(20_000, 4, 2, 1_000)]),
                NOW,
            )
            .expect("fits");
        for what in [
            Guarantee::Upcalls(vec![upcall(10_000, 9, 1, 1_000), upcall(40_000, 2, 1, 1_000)]),
            reservation("9ms/10ms"),
            reservation("10us/10ms"),
            Guarantee::Priority { share_ppm: 500_000 },
        ] {
            let _refusal =
                admission.admit(GrantId(3), &requester, &what, NOW).expect_err("too much");
            let offers = admission.offers(GrantId(3), &requester, &what, NOW);
            assert!(!offers.is_empty(), "{what}");
            for (text, offered) in offers {
                admission.clone().admit(GrantId(3), &requester, &offered, NOW).expect(&text);
            }
        }
    }
}

/// A change that the kernel or the ledger does not take is undone.
#[test]
fn a_change_that_is_refused_or_undone_leaves_no_trace() {
    let mut admission = AdmissionState::new(HOST, UpcallOrder::FixedLevel);
    let requester = requester(1, 2_000_000);
    admission.admit(GrantId(1), &requester, &reservation("2ms/10ms"), NOW).expect("fits");
    assert!(admission.change(GrantId(1), &requester, &reservation("95ms/100ms"), NOW).is_err());
    assert_eq!(admission.granted_ppm(), 200_000);
    let before = format!("{admission:?}");
    let change =
        admission.change(GrantId(1), &requester, &reservation("4ms/10ms"), NOW).expect("fits");
    assert_eq!((admission.granted_ppm(), admission.of_user(1)), (400_000, 400_000));
    admission.undo(change);
    assert_eq!(format!("{admission:?}"), before);
    admission.change(GrantId(1), &requester, &reservation("4ms/10ms"), NOW).expect("fits");
    assert_eq!((admission.granted_ppm(), admission.of_user(1)), (400_000, 400_000));
}

/// The oracle: the complete contract of each CPU, analysed anew.
#[test]
fn whatever_is_admitted_one_by_one_the_whole_analysis_admits_too() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut refused = 0;
    for _ in 0..40 {
        let mut admission = AdmissionState::new(HOST, UpcallOrder::LevelOrder);
        let requester = requester(1, 2_000_000);
        let mut live: BTreeMap<GrantId, Guarantee> = BTreeMap::new();
        for id in (1..40).map(GrantId) {
            if rng.random_ratio(1, 5)
                && let Some((&old, _)) = live.iter().next()
            {
                admission.release(old, NOW);
                live.remove(&old);
            }
            let what = if rng.random_ratio(1, 4) {
                let period = rng.random_range(5..50u64);
                reservation(&format!("{}us/{period}ms", period * rng.random_range(10..60)))
            } else {
                let (period, batch) = (rng.random_range(5_000..100_000), rng.random_range(1..6));
                Guarantee::Upcalls(vec![upcall(period, batch, 1, period / 60)])
            };
            match admission.admit(id, &requester, &what, NOW) {
                Ok(_) => _ = live.insert(id, what),
                Err(_) => refused += 1,
            }
        }
        for cpu in 0..2 {
            let mut contract = Contract::of_upcalls(Vec::new());
            for (id, what) in &live {
                match what {
                    Guarantee::Upcalls(upcalls) if admission.cpu_of(*id) == Some(cpu) => {
                        contract.tasks.extend(upcalls.iter().map(punctual_model::Task::from));
                        contract.upcalls.extend(upcalls.iter().cloned());
                    }
                    Guarantee::Reservation(reservation) => {
                        let name = id.to_string();
                        let named = punctual_model::contract::NamedReservation {
                            name,
                            reservation: *reservation,
                        };
                        contract.reservations.push(named);
                    }
                    _ => {}
                }
            }
            // Reservations may run anywhere on the host; here one CPU has to bear them all.
            let host = HostProfile { reservable_ppm: 1_000_000, ..HostProfile::ideal(1) };
            if !contract.upcalls.is_empty() {
                let _granted = punctual_analysis::admit(&contract, &host).expect("it was admitted");
            }
        }
        for id in live.keys() {
            admission.release(*id, NOW);
        }
        assert_eq!((admission.granted_ppm(), admission.of_user(1)), (0, 0));
    }
    assert!(refused > 100, "{refused}");
}
