//! Strings as paths in a forest: 256 roots, one for each octet, and nodes below them (§6.1).

/// A codeword of a string: the number of its node.
pub type Node = u16;

/// No node: the number of a command.
const NONE: Node = 0;

/// The root of octet 0 (N6).
const FIRST_ROOT: Node = 3;

/// The first node below roots (N5).
const FIRST: Node = FIRST_ROOT + 256;

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
    pub(super) fn new(codewords: u16) -> Self {
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
    pub(super) fn add(&mut self, node: Node, octet: u8) -> Node {
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
