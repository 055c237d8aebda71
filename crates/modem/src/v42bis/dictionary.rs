//! The strings that occurred before, as paths in a forest (V.42bis §6.1): 256 roots, one for each
//! octet, and nodes below them. A [`Matcher`] finds the longest known string, and learns it with
//! one more octet (§6.3, §6.4).
//!
//! The encoder matches its input. The decoder matches the octets of transparent mode; in compressed
//! mode it learns from codewords what the encoder learnt, one codeword later.

/// Bits of the first codewords (N3 + 1).
pub(super) const FIRST_BITS: u32 = 9;

/// No node: the number of a command.
const NONE: Node = 0;

/// The root of octet 0 (N6).
const FIRST_ROOT: Node = 3;

/// The first node below roots (N5).
const FIRST: Node = FIRST_ROOT + 256;

/// The sizes that two ends use; both must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// N2 (P1): the number of codewords, including the three commands and 256 octets.
    codewords: u16,
    /// N7 (P2): the largest number of octets in a string.
    string: u8,
}

impl Sizes {
    /// The largest number of codewords that this end supports.
    pub const MOST_CODEWORDS: u16 = 4_096;

    /// Creates sizes of `codewords`, at least 512, and strings of up to `string` octets, 6 to 250
    /// (§5.1, Table 1). Returns `None` outside of these ranges.
    pub fn new(codewords: u16, string: u8) -> Option<Self> {
        let fits = (512..=Self::MOST_CODEWORDS).contains(&codewords) && (6..=250).contains(&string);
        fits.then_some(Self { codewords, string })
    }

    /// Returns N2.
    pub fn codewords(self) -> u16 {
        self.codewords
    }

    /// Returns N7.
    pub fn string(self) -> u8 {
        self.string
    }

    /// Returns the smaller of both sizes.
    pub fn agreed_with(self, far: Self) -> Self {
        Self { codewords: self.codewords.min(far.codewords), string: self.string.min(far.string) }
    }

    /// Returns the bits of the longest codeword (N1).
    pub(super) fn most_bits(self) -> u32 {
        u16::BITS - (self.codewords - 1).leading_zeros()
    }
}

impl Default for Sizes {
    /// Returns the sizes that modems commonly offer.
    fn default() -> Self {
        Self { codewords: 2_048, string: 32 }
    }
}

/// A codeword of a string: the number of its node.
pub type Node = u16;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The octet that this node adds to its parent's string.
    octet: u8,
    parent: Node,
    first_child: Node,
    next_sibling: Node,
}

/// The forest. Allocates only when created.
#[derive(Clone, Debug)]
pub struct Dictionary {
    entries: Box<[Entry]>,
    /// C1: the node for the next string. It is always free.
    next: Node,
}

impl Dictionary {
    /// Creates the roots, with room for `codewords` in all. The caller's sizes guarantee at least
    /// 512, so that a path of at most 250 nodes never holds all of them.
    fn new(codewords: u16) -> Self {
        let mut entries = vec![Entry::default(); codewords.into()].into_boxed_slice();
        for octet in 0..=255 {
            entries[usize::from(Self::root(octet))].octet = octet;
        }
        Self { entries, next: FIRST }
    }

    /// Returns the string of one octet.
    pub fn root(octet: u8) -> Node {
        FIRST_ROOT + Node::from(octet)
    }

    /// Returns true if `node` stands for a string.
    pub fn has(&self, node: Node) -> bool {
        (FIRST_ROOT..FIRST).contains(&node)
            || self.entries.get(usize::from(node)).is_some_and(|entry| entry.parent != NONE)
    }

    /// Returns the string of `node` extended by one octet, if it exists.
    pub fn child(&self, node: Node, octet: u8) -> Option<Node> {
        let mut child = self.entry(node).first_child;
        while child != NONE {
            let entry = self.entry(child);
            if entry.octet == octet {
                return Some(child);
            }
            child = entry.next_sibling;
        }
        None
    }

    /// Adds the string of `node` extended by one octet (§6.4), and frees the node for the next
    /// string (§6.5): the first one from here on that no other string extends.
    fn add(&mut self, node: Node, octet: u8) -> Node {
        let added = self.next;
        let next_sibling = self.entry(node).first_child;
        self.entries[usize::from(added)] =
            Entry { octet, parent: node, first_child: NONE, next_sibling };
        self.entries[usize::from(node)].first_child = added;
        loop {
            self.next += 1;
            if usize::from(self.next) == self.entries.len() {
                self.next = FIRST;
            }
            if self.next != added && self.entry(self.next).first_child == NONE {
                break;
            }
        }
        self.remove(self.next);
        added
    }

    /// Writes the string of `node` to the end of `into` and returns it. A string that does not fit
    /// is cut off at its front.
    pub(super) fn string<'a>(&self, mut node: Node, into: &'a mut [u8]) -> &'a [u8] {
        let mut at = into.len();
        while at > 0 && self.has(node) {
            at -= 1;
            into[at] = self.entry(node).octet;
            node = self.entry(node).parent;
        }
        &into[at..]
    }

    /// Removes a leaf from the forest, if it is in it.
    fn remove(&mut self, leaf: Node) {
        let Entry { parent, next_sibling, .. } = self.entry(leaf);
        if parent == NONE {
            return;
        }
        let mut before = NONE;
        let mut child = self.entry(parent).first_child;
        while child != leaf {
            (before, child) = (child, self.entry(child).next_sibling);
        }
        if before == NONE {
            self.entries[usize::from(parent)].first_child = next_sibling;
        } else {
            self.entries[usize::from(before)].next_sibling = next_sibling;
        }
        self.entries[usize::from(leaf)] = Entry::default();
    }

    fn entry(&self, node: Node) -> Entry {
        self.entries[usize::from(node)]
    }
}

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
