//! Writes a simulated run, beside the summary, as slices for a viewer, as a trace file, and as the
//! page that `punctual report` makes of one.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use punctual::simulate::{Recorded, Slices, Watching};
use punctual::trace::{Existing, Recorder, run_in_virtual_time};
use punctual_frontend::exit::Failure;
use punctual_frontend::output::{self, NewFile};
use punctual_frontend::trace_file::refused;
use punctual_model::{HostProfile, Instant};
use punctual_trace::{Event, Sink, Subject};

use super::options::Args;
use crate::report;
use punctual::host::Stamp;

/// The outputs, each present if it was requested.
pub(super) struct Traces {
    slices: Option<Slices<BufWriter<NewFile>>>,
    file: Option<Recorded>,
    page: Option<Page>,
    /// The current CPU.
    cpu: u16,
    names: Vec<String>,
}

impl Traces {
    /// Opens the outputs that `args` requests, for a run of this contract.
    pub(super) fn of(args: &Args, contract: &str) -> Result<Self, Failure> {
        let slices = args.perfetto.as_deref();
        let slices = slices.map(|path| output::file(path, args.trace.force)).transpose()?;
        let slices = slices.map(|file| Slices::new(BufWriter::new(file)));
        let page = args.report.as_deref().map(|path| Page::beside(path, args)).transpose()?;
        let file = match &page {
            Some(Page { trace: Shown::Own(own), .. }) => {
                let run = run_in_virtual_time(contract);
                Some(Recorder::create(own.incomplete(), &run, Existing::Replace).map_err(refused)?)
            }
            _ => args.trace.of_virtual_run(contract)?,
        };
        Ok(Self { slices, file: file.map(Recorded::new), page, cpu: 0, names: Vec::new() })
    }

    /// Completes all outputs. No job was released after `until`; the contract was admitted for this
    /// host.
    pub(super) fn finish(
        self,
        until: Instant,
        host: &HostProfile,
        stamp: &Stamp,
    ) -> Result<(), Failure> {
        if let Some(file) = self.file {
            file.end(until)?;
        }
        if let Some(page) = self.page {
            page.write(host, stamp)?;
        }
        let Some(slices) = self.slices else { return Ok(()) };
        // The writer flushes what it holds, or is the one that failed.
        let (out, written) = slices.finish();
        let (file, _) = out.into_parts();
        written.map_err(|error| file.refuse(error))?;
        output::place(file)
    }
}

impl Watching for Traces {
    fn turn_to(&mut self, cpu: u16, subjects: &[Subject]) -> Result<(), Failure> {
        self.cpu = cpu;
        self.names = subjects.iter().map(|subject| subject.name.clone()).collect();
        self.file.as_mut().map_or(Ok(()), |file| file.turn_to(cpu, subjects))
    }
}

impl Sink for Traces {
    fn record(&mut self, event: Event) {
        if let Some(slices) = &mut self.slices {
            slices.record(self.cpu, &self.names[event.job.task as usize], event);
        }
        if let Some(file) = &mut self.file {
            file.record(event);
        }
    }
}

/// A page about to be written.
struct Page {
    file: NewFile,
    trace: Shown,
    title: String,
}

/// The trace that a page shows.
enum Shown {
    /// The trace file that the user requested too.
    Requested(PathBuf),
    /// A temporary file beside the page, deleted with this value.
    Own(NewFile),
}

impl Page {
    fn beside(path: &Path, args: &Args) -> Result<Self, Failure> {
        let file = output::file(path, args.trace.force)?;
        let trace = match args.trace.path() {
            Some(asked) => Shown::Requested(asked.to_owned()),
            None => Shown::Own(output::file(path, true)?),
        };
        Ok(Self { file, trace, title: report::name_of(&args.contract) })
    }

    fn write(self, host: &HostProfile, stamp: &Stamp) -> Result<(), Failure> {
        let mut shown = report::read(match &self.trace {
            Shown::Requested(path) => path,
            Shown::Own(file) => file.incomplete(),
        })?;
        shown.admit(host, &stamp.line());
        report::write(self.file, &shown.to_html(&self.title))
    }
}
