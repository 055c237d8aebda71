//! Measures the cost of an event to the thread that records it: Punctual's ring, LTTng's user-space
//! tracer, and the `tracing` crate, each with its time stamp. No thread waits and nothing is
//! written meanwhile: the ring is drained between batches, LTTng overwrites its oldest events, and
//! `tracing` hands the event to a subscriber that puts the same fields into the same ring.
#![allow(clippy::disallowed_methods, reason = "measures as its peers do")]

use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use punctual_bench::c_peer::CPeer;
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_linux::{clock, process};
use punctual_model::{Instant, JobId};
use punctual_ring::spsc::{self, Consumer, Producer};
use punctual_trace::{Event, Kind};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

const SLOTS: usize = 1 << 16;
const BATCH: u64 = 1 << 15;
const PAIRS: usize = 41;
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/lttng_event.c");

type Ring = (Producer<Event>, Consumer<Event>);

thread_local! {
    static TAKEN: RefCell<Ring> = RefCell::new(spsc::channel(SLOTS));
}

fn main() {
    let clock = || nanos_per_op(BATCH, || (0..BATCH).for_each(|_| _ = black_box(clock::now())));
    let ours = "a stamped event into our ring (A)";
    compare(&format!("{ours} / reading the clock alone (B)"), PAIRS, ring(), clock);
    compare(
        "an event with a given instant into our ring (A) / the clock alone (B)",
        PAIRS,
        bare(),
        clock,
    );
    let unsubscribed = || nanos_per_op(BATCH, || (0..BATCH).for_each(emit));
    compare(&format!("{ours} / `tracing` without a subscriber (B)"), PAIRS, ring(), unsubscribed);
    tracing::subscriber::with_default(IntoRing, || {
        compare(&format!("{ours} / `tracing` into the same ring (B)"), PAIRS, ring(), tracing_ring);
    });
    match lttng() {
        Err(why) => println!("against LTTng-UST: skipped, because {why}"),
        Ok(mut lttng) => {
            let theirs = || lttng.peer.nanos_per_op("event", BATCH);
            compare(&format!("{ours} / LTTng-UST (B)"), PAIRS, ring(), theirs);
        }
    }
}

fn event(i: u64, at: Instant) -> Event {
    let release = Instant::from_nanos(i);
    Event { at, job: JobId { task: 7, index: i }, release, kind: Kind::Start }
}

fn ring() -> impl FnMut() -> f64 {
    into_ring(|i| event(i, clock::now()))
}

fn bare() -> impl FnMut() -> f64 {
    into_ring(|i| event(black_box(i), Instant::from_nanos(i)))
}

fn into_ring(make: impl Fn(u64) -> Event) -> impl FnMut() -> f64 {
    let (mut producer, mut consumer) = spsc::channel(SLOTS);
    move || {
        let spent = nanos_per_op(BATCH, || (0..BATCH).for_each(|i| _ = producer.push(make(i))));
        assert_eq!(std::iter::from_fn(|| consumer.pop()).count() as u64, BATCH);
        spent
    }
}

fn emit(i: u64) {
    tracing::info!(release = i, job = i, task = 7u64, kind = 0u64);
}

fn tracing_ring() -> f64 {
    let spent = nanos_per_op(BATCH, || (0..BATCH).for_each(emit));
    let popped = TAKEN.with_borrow_mut(|(_, taken)| std::iter::from_fn(|| taken.pop()).count());
    assert_eq!(popped as u64, BATCH);
    spent
}

/// A subscriber that puts the fields of an event into the ring of the thread, stamped.
struct IntoRing;

#[derive(Default)]
struct Fields {
    release: u64,
    job: u64,
    task: u64,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "release" => self.release = value,
            "job" => self.job = value,
            "task" => self.task = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for IntoRing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let job = JobId { task: fields.task as u32, index: fields.job };
        let release = Instant::from_nanos(fields.release);
        let event = Event { at: clock::now(), job, release, kind: Kind::Start };
        TAKEN.with_borrow_mut(|(taken, _)| _ = taken.push(event));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A session of LTTng that overwrites its oldest events (a "snapshot" session), and the peer
/// program in it.
struct Lttng {
    peer: CPeer,
    _daemon: Daemon,
    _folder: tempfile::TempDir,
}

/// LTTng's session daemon, unless one ran before, and this benchmark's session in it.
struct Daemon(std::process::Child);

fn lttng() -> Result<Lttng, String> {
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let home = folder.path();
    let daemon = Command::new("lttng-sessiond")
        .args(["--no-kernel", "--quiet"])
        .env("LTTNG_HOME", home)
        .spawn()
        .map_err(|why| format!("lttng-sessiond (Debian's lttng-tools) did not start: {why}"))?;
    let daemon = Daemon(daemon);
    session(home)?;
    let peer = CPeer::start(Path::new(SOURCE), "lttng-ust", home)?;
    Ok(Lttng { peer, _daemon: daemon, _folder: folder })
}

fn session(home: &Path) -> Result<(), String> {
    let lttng = |arguments: &[&str]| {
        let output = Command::new("lttng").args(arguments).env("LTTNG_HOME", home).output();
        let output = output.map_err(|why| format!("lttng did not start: {why}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("lttng {arguments:?}: {said}")) }
    };
    // The daemon needs a moment before it answers.
    let mut outcome = Ok(());
    for _ in 0..50 {
        outcome = lttng(&["create", "punctual-bench", "--snapshot"]);
        if outcome.is_ok() {
            break;
        }
        clock::sleep(punctual_model::Duration::from_millis(100));
    }
    outcome?;
    lttng(&["enable-event", "--userspace", "punctual_bench:event"])?;
    lttng(&["start"])
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = Command::new("lttng").args(["destroy", "punctual-bench"]).output();
        // Terminated, not killed, because it has consumers to end.
        let _ = process::send(&self.0, process::Signal::TERM);
        let _ = self.0.wait();
    }
}
