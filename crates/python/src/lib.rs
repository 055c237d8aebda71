//! The native part of the Python package `punctual_rt`, whose other part is in `python/`.
//!
//! Everything here takes and returns plain values: an answer is the JSON that the command of the
//! same name prints, and Python makes objects of it. Calls that wait let other Python threads run.

mod channels;
mod pages;
mod programs;
mod reserved;

use std::path::{Path, PathBuf};

use punctual::admission::Answer;
use punctual::contract::{self, Declared};
use punctual::host::{self, Chosen};
use punctual::refusal::RefusalRecord;
use punctual::simulate::{Options, Pattern};
use punctual::{Failure, doctor, why};
use punctual_model::Duration;
use punctual_model::units::parse_nanos;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde::Serialize;

use pages::Page;

// Its fields have types and documentation, so it is written in Python.
pyo3::import_exception!(punctual_rt, Refused);
pyo3::create_exception!(
    punctual_rt,
    BadInput,
    pyo3::exceptions::PyValueError,
    "The contract, the trace or an argument is wrong. The text says where."
);
pyo3::create_exception!(
    punctual_rt,
    CannotHere,
    PyOSError,
    "This host cannot do it. The text says what to do about it."
);

/// Converts an error of the library to the exception of its kind.
fn raised(failure: Failure) -> PyErr {
    match failure {
        Failure::BadInput(why) => BadInput::new_err(why.to_string()),
        Failure::CannotHere(why) => CannotHere::new_err(why.to_string()),
        Failure::Refused(why) => refused(&why),
    }
}

/// Makes the exception of a refusal, with its numbers.
fn refused(why: &RefusalRecord) -> PyErr {
    match json(why) {
        Ok(numbers) => Refused::new_err((why.to_string(), numbers)),
        Err(why) => why,
    }
}

/// Parses a time with its unit.
fn duration(text: &str) -> PyResult<Duration> {
    let nanos = parse_nanos(text);
    nanos
        .map(Duration::from_nanos)
        .map_err(|why| BadInput::new_err(format!("the time {text:?} {why}")))
}

fn json(of: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(of).map_err(|why| BadInput::new_err(why.to_string()))
}

/// Reads a contract from its text, or else from the file at `path`, and chooses the host.
fn declared(
    path: Option<&Path>,
    text: Option<&str>,
    profile: Option<&Path>,
) -> Result<(Declared, Chosen), Failure> {
    let declared = match (path, text) {
        (None, Some(text)) => contract::of_text("text", text.as_bytes())?,
        (Some(path), None) => contract::read(path)?,
        _ => return Err(Failure::bad_input("give a contract as a file or as a text")),
    };
    Ok((declared, host::choose(profile)?))
}

/// Returns the answer to a contract, as `punctual admit --json` prints it.
#[pyfunction]
#[pyo3(signature = (path, text, profile, explain))]
fn admit(
    py: Python<'_>,
    path: Option<PathBuf>,
    text: Option<String>,
    profile: Option<PathBuf>,
    explain: bool,
) -> PyResult<String> {
    py.detach(|| {
        let (declared, chosen) =
            declared(path.as_deref(), text.as_deref(), profile.as_deref()).map_err(raised)?;
        json(&Answer::new(declared, chosen, explain))
    })
}

/// Returns the report of a contract in virtual time, as `punctual simulate --json` prints it, and
/// what makes its page.
#[pyfunction]
#[pyo3(signature = (path, text, profile, length, seed, arrivals))]
fn simulate(
    py: Python<'_>,
    path: Option<PathBuf>,
    text: Option<String>,
    profile: Option<PathBuf>,
    length: Option<String>,
    seed: Option<u64>,
    arrivals: Option<String>,
) -> PyResult<(String, Page)> {
    let usual = Options::default();
    let until = match length {
        Some(length) => duration(&length)?,
        None => usual.until,
    };
    let arrivals = match arrivals.as_deref() {
        None => None,
        Some("periodic") => Some(Pattern::Periodic),
        Some("sporadic") => Some(Pattern::Sporadic),
        Some("bursty") => Some(Pattern::Bursty),
        Some("adversarial") => Some(Pattern::Adversarial),
        Some(other) => {
            let why = format!(
                "arrivals is {other:?}; it must be periodic, sporadic, bursty or adversarial"
            );
            return Err(BadInput::new_err(why.to_string()));
        }
    };
    let options = Options { until, seed, arrivals, ..usual };
    py.detach(|| {
        let (declared, chosen) =
            declared(path.as_deref(), text.as_deref(), profile.as_deref()).map_err(raised)?;
        let name = path.as_deref().and_then(Path::file_name).unwrap_or("contract".as_ref());
        Page::of_run(name.to_string_lossy().into_owned(), declared, &chosen, options)
    })
}

/// Returns the records of the late jobs of a trace file and the record of its end, as
/// `punctual why --json FILE` prints them.
#[pyfunction]
fn why_late(py: Python<'_>, trace: PathBuf) -> PyResult<(Vec<String>, String)> {
    py.detach(|| {
        let found = why::of_trace(&trace).map_err(raised)?;
        let late = found.late_records().map(|late| json(&late)).collect::<PyResult<_>>()?;
        Ok((late, json(&found.end_record())?))
    })
}

/// Returns what this host can promise, as `punctual doctor --json` prints it.
#[pyfunction]
#[pyo3(signature = (interface))]
fn diagnose(py: Python<'_>, interface: Option<String>) -> PyResult<String> {
    py.detach(|| json(&doctor::diagnose(interface.as_deref())))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("BadInput", py.get_type::<BadInput>())?;
    module.add("CannotHere", py.get_type::<CannotHere>())?;
    module.add_class::<channels::Channel>()?;
    module.add_class::<Page>()?;
    module.add_class::<programs::Program>()?;
    module.add_class::<reserved::Reserved>()?;
    module.add_class::<reserved::Constraint>()?;
    module.add_function(wrap_pyfunction!(admit, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(why_late, module)?)?;
    module.add_function(wrap_pyfunction!(pages::report, module)?)?;
    module.add_function(wrap_pyfunction!(diagnose, module)?)
}
