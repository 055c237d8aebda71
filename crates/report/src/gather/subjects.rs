//! Numbers the subjects of a trace. Numbers in a file are arbitrary; places are consecutive and
//! bounded.

use std::collections::BTreeMap;

use punctual_trace::{Subject, SubjectKind};

/// The number of subjects that are reported. Each needs histograms.
pub(crate) const MOST_SUBJECTS: usize = 1024;

/// The subjects in the order in which the file names them.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    places: BTreeMap<u32, u32>,
    all: Vec<Subject>,
}

impl Subjects {
    /// Declares that this number is `subject` from here on. Returns its place, unless there are too
    /// many.
    pub(crate) fn declare(&mut self, number: u32, subject: Subject) -> Option<u32> {
        let place = self.place(number)?;
        self.all[place as usize] = subject;
        Some(place)
    }

    /// Returns the place of this number, and adds one if it is new.
    pub(crate) fn place(&mut self, number: u32) -> Option<u32> {
        if let Some(&place) = self.places.get(&number) {
            return Some(place);
        }
        if self.all.len() >= MOST_SUBJECTS {
            return None;
        }
        // The place is less than `MOST_SUBJECTS`.
        let place = self.all.len() as u32;
        self.places.insert(number, place);
        self.all.push(Subject::new(format!("subject {number}"), SubjectKind::Task));
        Some(place)
    }

    /// Returns the place of this number, if it has one.
    pub(crate) fn find(&self, number: u32) -> Option<u32> {
        self.places.get(&number).copied()
    }

    /// Returns the name of the subject with this number in the file.
    pub(crate) fn name_of(&self, number: u32) -> String {
        let subject = self.find(number).and_then(|place| self.all.get(place as usize));
        subject.map_or_else(|| format!("subject {number}"), |of| of.name.clone())
    }

    pub(crate) fn all(&self) -> &[Subject] {
        &self.all
    }
}
