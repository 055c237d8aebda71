//! String matching: finds the longest known string, and learns it with one more octet (§6.3, §6.4).
//!
//! The encoder matches its input. The decoder matches the octets of transparent mode; in compressed
//! mode it learns from codewords what the encoder learnt, one codeword later.

use super::Sizes;
use super::dictionary::{Dictionary, Node};

/// A string: its node and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) node: Node,
    pub(super) length: u8,
}

/// The state of string matching.
#[derive(Clone, Debug)]
pub(super) struct Matcher {
    pub(super) dictionary: Dictionary,
    longest: u8,
    /// The string so far.
    current: Option<Found>,
    /// A string that ended and waits for the next octet.
    ended: Option<Found>,
    /// The node that the last string added: the decoder does not have it yet, so the next string
    /// must not be it (§6.3 b).
    added: Option<Node>,
}

impl Matcher {
    pub(super) fn new(sizes: Sizes) -> Self {
        Self {
            dictionary: Dictionary::new(sizes.codewords()),
            longest: sizes.string(),
            current: None,
            ended: None,
            added: None,
        }
    }

    /// Takes an octet and returns the string that it ended, if any.
    pub(super) fn octet(&mut self, octet: u8) -> Option<Found> {
        if let Some(ended) = self.ended.take() {
            self.learn(ended, octet);
        }
        let begun = Found { node: Dictionary::root(octet), length: 1 };
        let Some(current) = self.current else {
            self.current = Some(begun);
            return None;
        };
        let longer = self.dictionary.child(current.node, octet);
        if let Some(node) = longer.filter(|&node| Some(node) != self.added) {
            let found = Found { node, length: current.length + 1 };
            if found.length < self.longest {
                self.current = Some(found);
                return None;
            }
            (self.current, self.added) = (None, None);
            return Some(found);
        }
        self.learn(current, octet);
        self.current = Some(begun);
        Some(current)
    }

    /// Ends the string here, before its next octet is known.
    pub(super) fn end(&mut self) -> Option<Found> {
        let current = self.current.take()?;
        self.ended = Some(current);
        Some(current)
    }

    /// Returns true if a string has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.current.is_some()
    }

    /// Takes a string that came as a codeword, and its first octet. Returns false if the dictionary
    /// no longer has it.
    pub(super) fn codeword(&mut self, found: Found, first: u8) -> bool {
        if let Some(ended) = self.ended.take() {
            self.learn(ended, first);
        }
        self.ended = Some(found);
        self.dictionary.has(found.node)
    }

    /// Adds a string extended by the octet that followed it, unless it exists or is too long.
    fn learn(&mut self, string: Found, octet: u8) {
        let known = self.dictionary.child(string.node, octet).is_some();
        self.added = (!known && string.length < self.longest)
            .then(|| self.dictionary.add(string.node, octet));
    }
}
