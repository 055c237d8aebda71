//! Reports on a trace, as one page that a browser opens without a network, and as JSON of the same
//! tables.
//!
//! - `blocks`: the file in a window of memory.
//! - `gather`: two passes over it, for the numbers and for the drawings.
//! - `admission`: repeats the admission of the run's contract.
//! - `tables`: everything as tables.
//! - `page`: the tables with plots between them.
//! - `json`: the tables alone.
//!
//! Whatever a trace contains, the page runs nothing of it and fetches nothing.

mod admission;
mod blocks;
mod gather;
mod json;
mod page;
mod shown;
mod tables;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use punctual_model::HostProfile;

use admission::Admission;
use gather::{Drawn, Survey};

pub use blocks::ReadError;

/// A report on a trace.
#[derive(Debug)]
pub struct Report {
    survey: Survey,
    drawn: Drawn,
    /// `None` if admission was not requested or there is no contract. The error is a sentence.
    admission: Option<Result<Admission, String>>,
}

impl Report {
    /// Reads a trace file as far as possible: the intact parts of a damaged file, and the present
    /// contents of a growing one. It makes two passes, each linear, and its memory is bounded
    /// whatever the length.
    ///
    /// ```
    /// use punctual_model::{Instant, JobId};
    /// use punctual_report::Report;
    /// use punctual_trace::file::{Run, Writer};
    /// use punctual_trace::{Event, Kind, Subject, SubjectKind};
    ///
    /// let mut writer = Writer::new(&Run::default());
    /// writer.subject(0, &Subject::new("<audio>", SubjectKind::Upcall));
    /// let (at, job) = (Instant::from_nanos(5), JobId { task: 0, index: 0 });
    /// writer.events(&[Event { at, job, release: at, kind: Kind::Start }]);
    /// writer.end(at);
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("a.ptrace");
    /// std::fs::write(&path, writer.take())?;
    ///
    /// let report = Report::read(&path)?;
    /// assert!(report.warnings().is_empty());
    /// assert!(report.to_html("a.ptrace").contains("&lt;audio&gt;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns a [`ReadError`]. Damage within a trace is no error; see
    /// [`warnings`](Self::warnings).
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path)?;
        // A file that grows meanwhile is the same in both passes.
        let length = file.metadata()?.len();
        let mut survey = Survey::of(file.take(length))?;
        let drawn = Drawn::of(File::open(path)?.take(length), &survey)?;
        survey.explain(&drawn.verdicts);
        Ok(Self { survey, drawn, admission: None })
    }

    /// Returns the contract of the run, as its author wrote it.
    pub fn contract(&self) -> Option<&str> {
        let contract = self.survey.run.as_ref()?.contract.as_str();
        (!contract.is_empty()).then_some(contract)
    }

    /// Adds the admission of the contract on this host, which `stamp` describes. The page says so
    /// if the contract cannot be read.
    pub fn admit(&mut self, host: &HostProfile, stamp: &str) {
        self.admission = self.contract().map(|text| Admission::of(text, host, stamp));
    }

    fn admission(&self) -> Option<&Admission> {
        self.admission.as_ref()?.as_ref().ok()
    }

    /// Returns a sentence for each thing that is missing in the trace: damage, losses, unknown
    /// blocks. There are none if the file is whole as far as it goes.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = self.survey.losses.sentences();
        if self.survey.end.is_none() {
            said.push("The trace has no end: its writer died, or still writes.".into());
        }
        said
    }

    /// Returns whether the trace is complete. No promise of an incomplete trace is known to be
    /// kept.
    pub fn is_whole(&self) -> bool {
        self.survey.end.is_some() && !self.survey.losses.exist()
    }
}
