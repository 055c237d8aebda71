//! `--trace` of who watches (`why`, `verify`): what is found goes into a trace file too.

use punctual_linux::clock;
use punctual_observe::{RecordError, Recorder, Seen};
use punctual_trace::cause::Verdict;

use crate::exit::Failure;
use crate::trace_file::refused;

/// The file, if one is asked for.
pub(crate) struct Recorded(Option<Recorder>);

impl Recorded {
    pub(crate) fn new(recorder: Option<Recorder>) -> Self {
        Self(recorder)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// What was seen since the last call, and why what was late was so.
    pub(crate) fn more(&mut self, seen: Vec<Seen>, late: &[Verdict]) -> Result<(), Failure> {
        let Some(recorder) = &mut self.0 else { return Ok(()) };
        write(recorder, seen, late).map_err(refused)
    }

    /// The run is over.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), |recorder| recorder.end(clock::now())).map_err(refused)
    }
}

fn write(recorder: &mut Recorder, seen: Vec<Seen>, late: &[Verdict]) -> Result<(), RecordError> {
    let mut events = Vec::new();
    for one in seen {
        match one {
            Seen::Event(event) => events.push(event),
            Seen::Subject(number, subject) => {
                recorder.events(&std::mem::take(&mut events))?;
                recorder.subject(number, &subject)?;
            }
            Seen::Lost(at, records) => {
                recorder.events(&std::mem::take(&mut events))?;
                recorder.lost(at, records)?;
            }
        }
    }
    recorder.events(&events)?;
    late.iter().try_for_each(|verdict| recorder.verdict(verdict))
}
