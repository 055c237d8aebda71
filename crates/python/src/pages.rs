//! The page that `punctual report` makes, of a trace file or of a run in virtual time.

use std::path::{Path, PathBuf};

use punctual::contract::Declared;
use punctual::host::{self, Chosen};
use punctual::simulate::{Options, Recorded, Simulation};
use punctual::trace::{Existing, Recorder, refused, run_in_virtual_time};
use punctual::{Failure, contract};
use punctual_model::Instant;
use punctual_report::{ReadError, Report};
use pyo3::prelude::*;

use crate::{json, raised};

/// Something that has a page.
#[pyclass(module = "punctual_rt._native", frozen)]
pub(crate) struct Page {
    title: String,
    of: Of,
}

enum Of {
    Trace(Box<Report>),
    /// Runs again for its page: the same options give the same run.
    Simulation {
        simulation: Box<Simulation>,
        contract: String,
        until: Instant,
    },
}

#[pymethods]
impl Page {
    /// Makes the page.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| match &self.of {
            Of::Trace(report) => Ok(report.to_html(&self.title)),
            Of::Simulation { simulation, contract, until } => {
                drawn(simulation, contract, *until, &self.title).map_err(raised)
            }
        })
    }
}

impl Page {
    /// Runs a contract in virtual time. Returns its report, and the page to be made of it.
    pub(crate) fn of_run(
        name: String,
        declared: Declared,
        chosen: &Chosen,
        options: Options,
    ) -> PyResult<(String, Self)> {
        let Declared { contract, notes, text } = declared;
        let until = Instant::ZERO + options.until;
        let simulation = Simulation::new(&contract, chosen, options).map_err(raised)?;
        let report = simulation.run(&mut ()).map_err(raised)?;
        let report = json(&contract::Noted { result: &report, notes: &notes })?;
        let of = Of::Simulation { simulation: Box::new(simulation), contract: text, until };
        Ok((report, Self { title: name, of }))
    }
}

fn drawn(
    simulation: &Simulation,
    contract: &str,
    until: Instant,
    title: &str,
) -> Result<String, Failure> {
    let file = tempfile::NamedTempFile::with_suffix(".ptrace").map_err(Failure::cannot_here)?;
    let run = run_in_virtual_time(contract);
    let recorder = Recorder::create(file.path(), &run, Existing::Replace).map_err(refused)?;
    let mut recorded = Recorded::new(recorder);
    let stamp = simulation.run(&mut recorded)?.host_profile;
    recorded.end(until)?;
    let mut report = read(file.path())?;
    report.admit(simulation.host(), &stamp.line());
    Ok(report.to_html(title))
}

fn read(trace: &Path) -> Result<Report, Failure> {
    Report::read(trace).map_err(|error| {
        let why = match error {
            ReadError::NoTrace(damage) => damage.to_string(),
            ReadError::Io(error) => format!("cannot be read: {error}"),
        };
        Failure::bad_input(format!("{}: {why}", trace.display()))
    })
}

/// Returns the tables of a trace, as `punctual report --json` prints them, and its page.
#[pyfunction]
#[pyo3(signature = (trace, profile))]
pub(crate) fn report(
    py: Python<'_>,
    trace: PathBuf,
    profile: Option<PathBuf>,
) -> PyResult<(String, Page)> {
    py.detach(|| {
        let mut report = read(&trace).map_err(raised)?;
        if report.contract().is_some() {
            let Chosen { host, stamp, .. } = host::choose(profile.as_deref()).map_err(raised)?;
            report.admit(&host, &stamp.line());
        }
        let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tables = json(&report.to_json(&name))?;
        Ok((tables, Page { title: name, of: Of::Trace(Box::new(report)) }))
    })
}
