//! `--trace` of modems: a job is a service of all lines, due every 20 ms.

use std::sync::Arc;
use std::thread::JoinHandle;

use punctual_frontend::exit::Failure;
use punctual_frontend::trace_file::{Beside, TraceArgs, complain_of, refused};
use punctual_linux::park::Park;
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, JobId};
use punctual_observe::Recorder;
use punctual_ring::spsc::{self, Consumer, Producer};
use punctual_trace::{Event, Kind, Promise, Subject, SubjectKind};

use crate::modems::PERIOD;

/// How often the events of a driver are written.
const WRITES: Duration = Duration::from_millis(200);

/// The trace file of a driver, if one is asked for: there from here on, with its only subject.
pub(crate) fn file_of(mut recorder: Option<Recorder>, driver: &Subject) -> Result<Beside, Failure> {
    if let Some(recorder) = &mut recorder {
        recorder.subject(0, driver).map_err(refused)?;
    }
    Ok(Beside::new(recorder))
}

/// Writes what happened since the last call; `lost` is how many events were lost since the beginning.
pub(crate) fn events(traced: &mut Beside, events: &[Event], lost: u64) {
    complain_of(traced.events(events, lost), "the modems");
}

/// Tells of the services of a driver that is a thread of this process.
///
/// The driver may run in a reservation of a command around it: it puts events into a ring, and a
/// thread of its own writes.
pub(crate) struct Services {
    /// The job that is served next.
    job: u64,
    writing: Option<Writing>,
}

struct Writing {
    events: Producer<Event>,
    ends: Arc<Park>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Services {
    /// Of the calling thread, if a trace is asked for; the file is there from here on.
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

    /// Serves all lines once, which was due at `release`.
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

    /// The services that were due from `release` on are left out; `now` begins a time line of its own.
    pub(crate) fn skip(&mut self, release: Instant, now: Instant) {
        let jobs = now.saturating_since(release) / PERIOD;
        self.tell(release, |_| Some(Kind::Skip { jobs }));
        self.job += jobs;
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The trace could not be written.
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
        // Why the driver ends is told by somebody else.
        let _ = self.close();
    }
}

/// Writes what the ring has, until it is told to end.
fn write(mut traced: Beside, mut told: Consumer<Event>, ends: &Park) -> Result<(), Failure> {
    loop {
        // Looked at first: what was put in before it was told is written.
        let is_last = ends.is_woken();
        let happened: Vec<Event> = std::iter::from_fn(|| told.pop()).collect();
        events(&mut traced, &happened, told.lost());
        if is_last {
            return traced.end();
        }
        let _ = ends.sleep_until(clock::now() + WRITES);
    }
}
