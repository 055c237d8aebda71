//! A priority queue that touches few cache lines.

use alloc::vec::Vec;

/// A heap with four children a node, of numbered places ordered by a 64-bit key, the least first.
/// The caller decides the order of two places with the same key, and is asked only then.
///
/// The four children of a node lie in one cache line, keys and numbers together, and the least of
/// them is found without a branch that could be mispredicted. So a large heap touches about half
/// the cache lines of a binary one that holds its items. A removal leaves a hole that sinks to the
/// bottom; the last place rises from there, usually not far (Wegener's bottom-up heapsort, 1993).
/// The hole stays open until the next place is requested: an insertion before then sinks into it,
/// which saves filling it from the end.
///
/// The root is at position 3. The children of position `p` are the four of line `p − 2`, position
/// `p` is in line `p / 4`, so its parent is at `p / 4 + 2`.
#[derive(Clone, Debug)]
pub(super) struct PlaceHeap {
    lines: Vec<Line>,
    /// The position of the next insertion.
    end: usize,
    /// True if the root is a hole.
    is_open: bool,
}

/// Four siblings. Absent ones have the greatest key and the place `NO_PLACE`.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    keys: [u64; 4],
    places: [u32; 4],
}

/// The number of no place.
pub(super) const NO_PLACE: u32 = u32::MAX;

const ROOT: usize = 3;

const EMPTY: Line = Line { keys: [u64::MAX; 4], places: [NO_PLACE; 4] };

impl PlaceHeap {
    /// Makes an empty heap with room for `places` places.
    pub(super) fn with_capacity(places: usize) -> Self {
        Self { lines: Vec::with_capacity((places + ROOT).div_ceil(4)), end: ROOT, is_open: false }
    }

    pub(super) fn len(&self) -> usize {
        self.end - ROOT - usize::from(self.is_open)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the least key. The heap must be closed.
    #[inline]
    pub(super) fn first_key(&self) -> Option<u64> {
        if self.is_empty() { None } else { self.lines.first().map(|line| line.keys[ROOT]) }
    }

    /// Inserts `place`. `before(a, b)` returns true if `a` goes first, for places with the same
    /// key.
    #[inline]
    pub(super) fn push(&mut self, key: u64, place: u32, before: impl Fn(u32, u32) -> bool) {
        if self.is_open {
            self.is_open = false;
            return self.sink(ROOT, key, place, before);
        }
        let at = self.end;
        self.end += 1;
        if at / 4 == self.lines.len() {
            self.lines.push(EMPTY);
        }
        self.rise(at, key, place, before);
    }

    /// Returns the place with the least key. The heap must be closed.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        debug_assert!(!self.is_open, "the first is not known");
        if self.is_empty() { None } else { self.lines.first().map(|line| line.places[ROOT]) }
    }

    /// Removes the first of a closed heap, if there is one, and leaves the heap open.
    #[inline]
    pub(super) fn remove_first(&mut self) {
        debug_assert!(!self.is_open, "the first is not known");
        self.is_open = !self.is_empty();
    }

    /// Closes the heap if it is open, so that its first is known again.
    #[inline]
    pub(super) fn close(&mut self, before: impl Fn(u32, u32) -> bool) {
        if !self.is_open {
            return;
        }
        self.is_open = false;
        let (key, place) = self.take_last();
        let end = self.end;
        if end == ROOT {
            return;
        }
        let mut hole = ROOT;
        while (hole - 2) * 4 < end {
            let children = hole - 2;
            let line = &self.lines[children];
            let least = line.least(&before);
            let (key, place) = (line.keys[least], line.places[least]);
            self.put(hole, key, place);
            hole = children * 4 + least;
        }
        self.rise(hole, key, place, before);
    }

    /// Removes `place` anywhere: O(n). Returns false if it is not there. Closes the heap.
    pub(super) fn remove(&mut self, place: u32, before: impl Fn(u32, u32) -> bool) -> bool {
        self.close(&before);
        let is_it = |at: &usize| self.lines[at / 4].places[at % 4] == place;
        let Some(at) = (ROOT..self.end).find(is_it) else { return false };
        let (key, last) = self.take_last();
        if at < self.end {
            // It may belong above as well as below.
            self.rise(at, key, last, &before);
            let line = &self.lines[at / 4];
            let (key, there) = (line.keys[at % 4], line.places[at % 4]);
            if there == last {
                self.sink(at, key, last, &before);
            }
        }
        true
    }

    /// Removes and returns the last of a heap that is not empty.
    #[inline]
    fn take_last(&mut self) -> (u64, u32) {
        self.end -= 1;
        let (line, at) = (&mut self.lines[self.end / 4], self.end % 4);
        let last = (line.keys[at], line.places[at]);
        (line.keys[at], line.places[at]) = (u64::MAX, NO_PLACE);
        last
    }

    /// Puts a place into the hole at `hole`, or below.
    #[inline]
    fn sink(&mut self, mut hole: usize, key: u64, place: u32, before: impl Fn(u32, u32) -> bool) {
        while (hole - 2) * 4 < self.end {
            let children = hole - 2;
            let line = &self.lines[children];
            let least = line.least(&before);
            let (below, child) = (line.keys[least], line.places[least]);
            if key < below || (key == below && !before(child, place)) {
                break;
            }
            self.put(hole, below, child);
            hole = children * 4 + least;
        }
        self.put(hole, key, place);
    }

    /// Puts a place into the hole at `at`, or above.
    #[inline]
    fn rise(&mut self, mut at: usize, key: u64, place: u32, before: impl Fn(u32, u32) -> bool) {
        while at > ROOT {
            let parent = at / 4 + 2;
            let line = &self.lines[parent / 4];
            let (above, above_place) = (line.keys[parent % 4], line.places[parent % 4]);
            if key > above || (key == above && !before(place, above_place)) {
                break;
            }
            self.put(at, above, above_place);
            at = parent;
        }
        self.put(at, key, place);
    }

    #[inline]
    fn put(&mut self, at: usize, key: u64, place: u32) {
        let line = &mut self.lines[at / 4];
        line.keys[at % 4] = key;
        line.places[at % 4] = place;
    }
}

impl Line {
    /// Returns the position of the first of the four.
    #[inline]
    fn least(&self, before: impl Fn(u32, u32) -> bool) -> usize {
        let [a, b, c, d] = self.keys;
        let (b_less, d_less) = (b < a, d < c);
        let (ab, cd) = (a.min(b), c.min(d));
        let right = cd < ab;
        let least = if right { 2 + usize::from(d_less) } else { usize::from(b_less) };
        // The least key occurs twice: in its own half, or in both. Rare, so one test covers all
        // cases.
        let apart = if right { c ^ d } else { a ^ b };
        if apart == 0 || ab == cd {
            return self.least_of_equals(before);
        }
        // Lets the compiler see that it is below four.
        least % 4
    }

    #[cold]
    fn least_of_equals(&self, before: impl Fn(u32, u32) -> bool) -> usize {
        let mut least = 0;
        for other in 1..4 {
            let (key, place) = (self.keys[other], self.places[other]);
            let (least_key, least_place) = (self.keys[least], self.places[least]);
            let goes_first = || match (place, least_place) {
                (NO_PLACE, _) => false,
                (_, NO_PLACE) => true,
                _ => before(place, least_place),
            };
            if key < least_key || (key == least_key && goes_first()) {
                least = other;
            }
        }
        least
    }
}
