//! `--trace` of modems: a job is a service of all lines, due every 20 ms.

use std::sync::Arc;
use std::thread::JoinHandle;

use punctual_frontend::exit::Failure;
use punctual_frontend::trace_file::{Beside, TraceArgs, complain_of, refused};
use punctual_linux::park::Park;
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, JobId};
use punctual_ring::spsc::{self, Consumer, Producer};
use punctual_runtime::recording::Recorder;
use punctual_trace::{Event, Kind, Promise, Subject, SubjectKind};

use crate::modems::PERIOD;

/// The interval at which the events of a driver are written.
const WRITES: Duration = Duration::from_millis(200);

/// Creates the trace file of a driver, with its only subject, if a trace is requested.
pub(crate) fn file_of(mut recorder: Option<Recorder>, driver: &Subject) -> Result<Beside, Failure> {
    if let Some(recorder) = &mut recorder {
        recorder.subject(0, driver).map_err(refused)?;
    }
    Ok(Beside::new(recorder))
}

/// Writes the events since the last call; `lost` is the number lost since the beginning.
pub(crate) fn events(traced: &mut Beside, events: &[Event], lost: u64) {
    complain_of(traced.events(events, lost), "the modems");
}

/// Records the services of a driver that is a thread of this process.
///
/// The driver may run in a reservation of an enclosing command, so it only puts events into a ring,
/// and a separate thread writes them.
pub(crate) struct Services {
    /// The next job to be served.
    job: u64,
    writing: Option<Writing>,
}

struct Writing {
    events: Producer<Event>,
    ends: Arc<Park>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Services {
    /// Records the calling thread, if a trace is requested; creates the file at once.
    pub(crate) fn traced(trace: &TraceArgs, driver: &str) -> Result<Self, Failure> {
        let Some(recorder) = trace.of_live_run("")? else {
            return Ok(Self { job: 0, writing: None });
        };
        let subject = Subject {
            promise: Promise { period: Some(PERIOD), relative_deadline: Some(PERIOD), wcet: None },
            thread: u32::try_from(thread::current().as_raw()).ok(),
            ..Subject::new(driver, SubjectKind::Upcall)
        };
        let traced = file_of(Some(recorder), &subject)?;
        let (events, told) = spsc::channel(trace.event_room());
        let ends = Arc::new(Park::new());
        let is_over = Arc::clone(&ends);
        let thread = std::thread::Builder::new()
            .name("trace".into())
            .spawn(move || write(traced, told, &is_over))
            .map_err(|why| Failure::cannot_here(format!("no thread for the trace: {why}")))?;
        Ok(Self { job: 0, writing: Some(Writing { events, ends, thread }) })
    }

    /// Runs a service of all lines that was due at `release`.
    pub(crate) fn serve(
        &mut self,
        release: Instant,
        service: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.tell(release, |_| Some(Kind::Start));
        service()?;
        let deadline = release + PERIOD;
        self.tell(release, |at| (at > deadline).then_some(Kind::Overrun { jobs: 1 }));
        self.tell(release, |_| Some(Kind::Complete));
        self.job += 1;
        Ok(())
    }

    /// Records that the services due from `release` on are skipped; `now` begins a new time line.
    pub(crate) fn skip(&mut self, release: Instant, now: Instant) {
        let jobs = now.saturating_since(release) / PERIOD;
        self.tell(release, |_| Some(Kind::Skip { jobs }));
        self.job += jobs;
    }

    /// Writes the remaining events.
    ///
    /// # Errors
    /// Fails if the trace could not be written.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.close()
    }

    fn tell(&mut self, release: Instant, what: impl FnOnce(Instant) -> Option<Kind>) {
        let Some(writing) = &mut self.writing else { return };
        let at = clock::now();
        if let Some(kind) = what(at) {
            let job = JobId { task: 0, index: self.job };
            // A full ring counts what it drops.
            let _ = writing.events.push(Event { at, job, release, kind });
        }
    }

    fn close(&mut self) -> Result<(), Failure> {
        let Some(Writing { ends, thread, .. }) = self.writing.take() else { return Ok(()) };
        ends.wake();
        // A panic of the thread was printed when it happened.
        thread.join().unwrap_or(Ok(()))
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        // The driver's own error is reported elsewhere.
        let _ = self.close();
    }
}

/// Writes the events from the ring until `ends` is woken.
fn write(mut traced: Beside, mut told: Consumer<Event>, ends: &Park) -> Result<(), Failure> {
    loop {
        // Read first, so that all events put in before the wake-up are written.
        let is_last = ends.is_woken();
        let happened: Vec<Event> = std::iter::from_fn(|| told.pop()).collect();
        events(&mut traced, &happened, told.lost());
        if is_last {
            return traced.end();
        }
        let _ = ends.sleep_until(clock::now() + WRITES);
    }
}
