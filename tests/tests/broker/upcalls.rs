//! Upcalls of an ordinary user, under a grant of the broker in level mode: the thread has one fixed
//! class, and a handler that does not return is contained without privilege.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_client::want::Want;
use punctual_client::{Broker as Connection, Granted, RequestError};
use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::level_of;
use punctual_runtime::{Activity, Placement, Running, StartError, Upcalls};
use system_tests::live::eventually as soon;

use crate::host::{Broker, GENEROUS, alone, eventually};

/// Counts its jobs, and records the class in which it runs.
#[derive(Default)]
struct Seen {
    jobs: AtomicU64,
    /// The SCHED_FIFO priority, or -1 once it was anything else.
    priority: AtomicI32,
    /// Whether the handler blocks until it is released.
    stuck: AtomicBool,
    thread: AtomicI32,
}

struct Worker(Arc<Seen>);

impl Handler for Worker {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        let this = thread::current();
        let priority = match sched::get(this).ok().and_then(|now| now.class()) {
            Some(Class::Fifo { priority }) => i32::from(priority),
            _ => -1,
        };
        self.0.priority.store(priority, Ordering::Release);
        self.0.thread.store(this.as_raw(), Ordering::Release);
        while self.0.stuck.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        self.0.jobs.fetch_add(1, Ordering::Release);
        pdus
    }
}

fn upcall(period_ms: u64, micros: u64) -> Upcall {
    Upcall::new(UpcallSpec {
        name: format!("every {period_ms} ms"),
        period: Duration::from_millis(period_ms),
        batch: 2,
        quantum: 1,
        time_per_pdu: Service::from_micros(micros),
    })
    .expect("valid")
}

/// The connection, and the grant if there is one.
type Session = Arc<Mutex<(Connection, Option<Granted>)>>;

fn ask(
    asked: &Session,
    thread: Tid,
    upcalls: &[Upcall],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    let (broker, has) = &mut *asked;
    if let Some(before) = has.take() {
        before.release(broker)?;
    }
    *has = Some(broker.request(&Want { thread, ..Want::upcalls(upcalls.to_vec()) })?);
    Ok(())
}

fn start(
    socket: &Path,
    upcalls: Vec<Upcall>,
    seen: &[Arc<Seen>],
) -> Result<(Session, Running<Worker>), StartError> {
    let broker = Connection::connect_to(socket).expect("it runs");
    let asked: Session = Arc::new(Mutex::new((broker, None)));
    let grant = {
        let (asked, upcalls) = (Arc::clone(&asked), upcalls.clone());
        move |thread| ask(&asked, thread, &upcalls)
    };
    let mut created = Upcalls::new(Placement::Granted, HostProfile::ideal(1)).with_grant(grant);
    for (upcall, seen) in upcalls.into_iter().zip(seen) {
        created.create(upcall, Worker(Arc::clone(seen))).expect("fits here");
    }
    Ok((asked, created.run(clock::now())?))
}

fn more_of(seen: &Seen) -> bool {
    let before = seen.jobs.load(Ordering::Acquire);
    soon(|| seen.jobs.load(Ordering::Acquire) > before + 3)
}

/// Runs in the client's process, and returns the result in words.
pub(crate) fn obey(socket: &Path, what: &str) -> String {
    let seen: Vec<Arc<Seen>> = (0..2).map(|_| Arc::default()).collect();
    let level = i32::from(level_of(Duration::from_millis(20)));
    match what {
        "run" => {
            let upcalls = vec![upcall(20, 100), upcall(40, 100)];
            let (_asked, running) = start(socket, upcalls, &seen).expect("granted");
            assert!(seen.iter().all(|seen| more_of(seen)), "they run");
            let priorities = seen.iter().map(|seen| seen.priority.load(Ordering::Acquire));
            // One fixed level, that of the shortest period, whichever handler runs.
            let at_level = priorities.clone().all(|priority| priority == level);
            let threads: Vec<i32> =
                seen.iter().map(|seen| seen.thread.load(Ordering::Acquire)).collect();
            assert_eq!(threads[0], threads[1], "one thread runs them all");
            let stopped = running.stop().expect("kept its class");
            format!("at level {at_level}, handlers back {}", stopped.handlers.len())
        }
        // The second upcall never yields, at its first job; the first one must go on.
        "contain" => {
            let upcalls = vec![upcall(20, 100), upcall(40, 100)];
            seen[1].stuck.store(true, Ordering::Release);
            let (_asked, running) = start(socket, upcalls, &seen).expect("granted");
            let is_contained = soon(|| running.activity(1) == Activity::Contained);
            let goes_on = more_of(&seen[0]);
            let again = seen[0].priority.load(Ordering::Acquire) == level;
            let stuck = Tid::from_raw(seen[1].thread.load(Ordering::Acquire));
            let lowered = stuck.is_some_and(|stuck| {
                sched::get(stuck).is_ok_and(|now| now.policy_name() == "SCHED_OTHER")
            });
            let moved = stuck.map(Tid::as_raw) != Some(seen[0].thread.load(Ordering::Acquire));
            seen[1].stuck.store(false, Ordering::Release);
            let returns = soon(|| running.activity(1) == Activity::Active) && more_of(&seen[1]);
            running.stop().expect("kept its class");
            format!(
                "contained {is_contained}, others on {goes_on}, at level {again}, stuck lowered \
                 {lowered}, another thread {moved}, comes back {returns}"
            )
        }
        // More than this user's quota.
        "too much" => match start(socket, vec![upcall(20, 9_000)], &seen) {
            Ok(_) => "granted".into(),
            Err(StartError::NotGranted(why)) => match why.downcast_ref::<RequestError>() {
                Some(RequestError::Refused(refused)) => refused.to_string(),
                other => format!("error {other:?}"),
            },
            Err(other) => format!("error {other}"),
        },
        other => panic!("{other}"),
    }
}

/// Containment must act before the kernel's own limit, even on a host with other load.
fn patient_with_runners() -> String {
    GENEROUS.replace("run_limit = \"1s\"", "run_limit = \"20s\"")
}

#[test]
fn an_ordinary_users_upcalls_run_at_one_fixed_level() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&patient_with_runners());
    let mut client = broker.client();
    assert_eq!(client.ask("run_upcalls run"), "at level true, handlers back 2");
    client.kill();
    eventually("its grant is gone", || broker.granted_ppm() == 0);
}

#[test]
fn a_handler_that_never_yields_is_contained_without_privilege() {
    let Some(_alone) = alone() else { return };
    if thread::affinity().len() < 2 {
        return println!("skipped: with one CPU the guard, an ordinary thread, would not run");
    }
    let broker = Broker::start(&patient_with_runners());
    let mut client = broker.client();
    assert_eq!(
        client.ask("run_upcalls contain"),
        "contained true, others on true, at level true, stuck lowered true, another thread true, \
         comes back true"
    );
}

#[test]
fn a_refusal_by_the_broker_comes_with_an_offer() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    let answer = client.ask("run_upcalls too much");
    assert!(answer.starts_with("refused by the quota test of the broker: "), "{answer}");
    assert!(answer.contains("it would be admitted with"), "{answer}");
    assert_eq!(broker.granted_ppm(), 0);
}
