//! Programs under reservations.
//!
//! A thread of its own starts each program and waits for it: the kernel kills a program with the
//! thread that started it (PR_SET_PDEATHSIG), and a Python thread may end at any time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use punctual::Failure;
use punctual::run::{self, Notice, Prepared, Reserve, Settings};
use punctual_linux::clock;
use punctual_linux::process::{Handle, Signal};
use punctual_model::command::Backend;
use punctual_model::reservation::ReservationError;
use punctual_model::{self as model, Enforcement};
use pyo3::exceptions::{PyProcessLookupError, PyTimeoutError};
use pyo3::prelude::*;

use crate::{BadInput, CannotHere, json, raised};

/// How often a wait looks for signals that Python has to handle.
const LOOK: Duration = Duration::from_millis(50);

/// The exit code of a program and its account as JSON, or why it did not run.
type End = Result<(u8, String), PyErr>;

/// A program that runs under a reservation. It is killed with this process.
#[pyclass(module = "punctual_rt._native")]
pub(crate) struct Program {
    pid: u32,
    process: Handle,
    ends: std::sync::Mutex<Receiver<End>>,
    end: Option<(u8, String)>,
}

#[pymethods]
impl Program {
    /// Starts a program.
    #[new]
    #[pyo3(signature = (words, reservation, hard, backend, cpu, directory, environment, broker, adapt))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn start(
        py: Python<'_>,
        words: Vec<OsString>,
        reservation: &str,
        hard: Option<bool>,
        backend: Option<&str>,
        cpu: Option<usize>,
        directory: Option<PathBuf>,
        environment: Vec<(OsString, OsString)>,
        broker: Option<PathBuf>,
        adapt: Option<&str>,
    ) -> PyResult<Self> {
        let mut words = words.into_iter();
        let program = words.next().ok_or_else(|| BadInput::new_err("there is no program"))?;
        let backend = backend.map(|name| {
            let known = Backend::NAMES.into_iter().find(|(known, _)| *known == name);
            known.map(|(_, backend)| backend).ok_or_else(|| {
                let known = Backend::NAMES.map(|(known, _)| known).join(", ");
                BadInput::new_err(format!("backend is {name:?}; it must be one of {known}"))
            })
        });
        let reserve = Reserve {
            reservation: parse(reservation)?,
            enforcement: hard.map(|hard| if hard { Enforcement::Hard } else { Enforcement::Soft }),
            backend: backend.transpose()?,
            cpu,
            adapt: adapt.map(parse).transpose()?,
            memory: None,
        };
        let program = run::Program {
            reserve: Some(reserve),
            directory,
            environment,
            ..run::Program::new(program, words)
        };
        // Signals are Python's business.
        let settings = Settings { broker, passes_signals_on: false, ..Settings::default() };
        py.detach(|| {
            let (started, starts) = mpsc::sync_channel(1);
            let (end, ends) = mpsc::sync_channel(1);
            let body = move || {
                // Nobody may wait for the end any more.
                let _ = end.send(to_its_end(program, settings, &started));
            };
            let thread = std::thread::Builder::new().name("punctual-program".into()).spawn(body);
            thread.map_err(|why| CannotHere::new_err(format!("no thread: {why}")))?;
            match starts.recv() {
                Ok((pid, process)) => {
                    let process = process.map_err(|why| CannotHere::new_err(why.to_string()))?;
                    Ok(Self { pid, process, ends: std::sync::Mutex::new(ends), end: None })
                }
                // The thread has ended without a program.
                Err(_) => match ends.recv() {
                    Ok(Err(why)) => Err(why),
                    _ => Err(CannotHere::new_err("the program did not start")),
                },
            }
        })
    }

    /// The id of the program's first process.
    #[getter]
    fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal to the program's first process.
    fn send_signal(&self, signal: i32) -> PyResult<()> {
        let known = Signal::from_named_raw(signal);
        let signal = known.ok_or_else(|| BadInput::new_err(format!("no signal {signal}")))?;
        self.process.send(signal).map_err(|why| PyProcessLookupError::new_err(why.to_string()))
    }

    /// Waits for the end of the program, for so many seconds at most, and returns its exit code and
    /// its account.
    #[pyo3(signature = (seconds))]
    fn wait(&mut self, py: Python<'_>, seconds: Option<f64>) -> PyResult<(u8, String)> {
        // A cast to an integer saturates; no number is 0.
        let nanos = seconds.map(|seconds| (seconds * 1e9) as u64);
        let until =
            nanos.map(|nanos| clock::now().saturating_add(model::Duration::from_nanos(nanos)));
        while self.end.is_none() {
            let left = until.map(|until| until.saturating_since(clock::now()));
            let left = left.map(|left| Duration::from_nanos(left.as_nanos()));
            let look = left.map_or(LOOK, |left| left.min(LOOK));
            let ends = &self.ends;
            let end = py.detach(|| {
                let ends = ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                ends.recv_timeout(look)
            });
            match end {
                Ok(end) => self.end = Some(end?),
                Err(RecvTimeoutError::Timeout) if left.is_some_and(|left| left.is_zero()) => {
                    return Err(PyTimeoutError::new_err("the program still runs"));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CannotHere::new_err("the thread of the program has ended"));
                }
            }
        }
        self.end.clone().ok_or_else(|| CannotHere::new_err("no end"))
    }
}

/// Parses X/Y, or a range of budgets.
pub(crate) fn parse<T: FromStr<Err = ReservationError>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|why: ReservationError| BadInput::new_err(why.to_string()))
}

/// Runs the program to its end, and reports its start.
fn to_its_end(
    program: run::Program,
    settings: Settings,
    started: &SyncSender<(u32, std::io::Result<Handle>)>,
) -> End {
    let failed = |why: run::Error| raised(Failure::from(why));
    let prepared = Prepared::program(program, settings, &mut |_| {}).map_err(failed)?;
    let outcome = prepared.run(None, &mut |notice| {
        if let Notice::Started { process, .. } = *notice {
            // The starter waits for this.
            let _ = started.send((process, Handle::of(process)));
        }
    });
    let outcome = outcome.map_err(failed)?;
    Ok((outcome.code(), json(&outcome.alone())?))
}
