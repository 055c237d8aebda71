//! Produces the bytes of a trace file. The caller appends them to the file, each time with one
//! write, so that a crash leaves at most one block incomplete.

use alloc::vec::Vec;

use punctual_model::Instant;

use super::block::{Lost, Run, WireRequest, WireSubject};
use super::frame::Before;
use super::verdict::WireVerdict;
use super::{events, frame};
use crate::cause::Verdict;
use crate::constraint::ConstraintRequest;
use crate::event::{Event, Subject};

/// The numbers of the kinds of block. They never change.
pub(super) const RUN: u8 = 1;
pub(super) const SUBJECT: u8 = 2;
pub(super) const EVENTS: u8 = 3;
pub(super) const LOST: u8 = 4;
pub(super) const END: u8 = 5;
pub(super) const VERDICT: u8 = 6;
pub(super) const REQUEST: u8 = 7;

/// Collects bytes to append to the file.
///
/// ```
/// use punctual_model::{Instant, JobId};
/// use punctual_trace::file::{Reader, Run, Step, Writer};
/// use punctual_trace::{Event, Kind, Subject, SubjectKind};
///
/// let mut writer = Writer::new(&Run::default());
/// writer.subject(0, &Subject::new("audio", SubjectKind::Upcall));
/// let at = Instant::from_nanos(1_000);
/// writer.events(&[Event { at, job: JobId { task: 0, index: 0 }, release: at, kind: Kind::Start }]);
/// writer.end(at);
/// let bytes = writer.take();
///
/// let mut reader = Reader::new();
/// let mut blocks = 0;
/// while let Step::Block(_) = reader.step(&bytes)? {
///     blocks += 1;
/// }
/// assert_eq!(blocks, 4);
/// # Ok::<(), punctual_trace::file::Damage>(())
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    out: Vec<u8>,
    /// The counts of the file before the next block.
    before: Before,
}

impl Writer {
    /// Begins a file with the preamble and the first block. A contract, host facts or a command
    /// that are too long for a block are cut.
    pub fn new(run: &Run) -> Self {
        let out = Vec::from(frame::preamble());
        let mut run = run.clone();
        cut(&mut run.contract, frame::LONGEST / 2);
        cut(&mut run.command, 1 << 16);
        let mut room = 1usize << 18;
        run.host.retain(|line| {
            let fits = line.len() + 8 <= room;
            room = room.saturating_sub(line.len() + 8);
            fits
        });
        let mut writer = Self { out, before: Before::default() };
        writer.append(RUN, (0, 0), |out| put(out, &run));
        writer
    }

    /// Declares that events with this number belong to `subject` from here on.
    pub fn subject(&mut self, number: u32, subject: &Subject) {
        let mut subject = subject.clone();
        cut(&mut subject.name, 1 << 12);
        self.append(SUBJECT, (0, 1), |out| put(out, &WireSubject::of(number, &subject)));
    }

    /// Writes these events. Writes nothing if there are none.
    pub fn events(&mut self, events: &[Event]) {
        let mut rest = events;
        while !rest.is_empty() {
            let (payload, count) = events::encode(rest);
            self.append(EVENTS, (count, 0), |out| out.extend_from_slice(&payload));
            rest = &rest[count..];
        }
    }

    /// Records the events that were lost since the last block.
    pub fn lost(&mut self, lost: Lost) {
        self.append(LOST, (0, 0), |out| put(out, &lost));
    }

    /// Records a request for a time constraint. It must precede the events of its job.
    pub fn request(&mut self, request: &ConstraintRequest) {
        self.append(REQUEST, (0, 0), |out| put(out, &WireRequest::of(request)));
    }

    /// Records why a subject's job was late. Beyond a few thousand causes, the smallest are left
    /// out.
    pub fn verdict(&mut self, verdict: &Verdict) {
        self.append(VERDICT, (0, 0), |out| put(out, &WireVerdict::of(verdict)));
    }

    /// Ends the trace: the run is over and everything known has been written.
    pub fn end(&mut self, at: Instant) {
        self.append(END, (0, 0), |out| put(out, &at.as_nanos()));
    }

    /// Appends a block that contains this many events and subjects.
    fn append(&mut self, kind: u8, tells: (usize, u32), fill: impl FnOnce(&mut Vec<u8>)) {
        frame::append(&mut self.out, kind, self.before, fill);
        self.before = self.before.and(tells.0, tells.1);
    }

    /// Returns the bytes to append to the file now.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// Returns the number of bytes that wait for [`take`](Self::take).
    pub fn waiting(&self) -> usize {
        self.out.len()
    }
}

fn put<T: serde::Serialize>(out: &mut Vec<u8>, value: &T) {
    // Cannot fail: the values written here have no map and no sequence of unknown length.
    let bytes = postcard::to_allocvec(value).expect("plain data");
    out.extend_from_slice(&bytes);
}

/// Cuts the text to at most `bytes` bytes of whole characters.
fn cut(text: &mut alloc::string::String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
    }
}
