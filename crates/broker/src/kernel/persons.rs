//! The person behind a user id.
//!
//! A person may hold more than one id: also those that /etc/subuid delegates (subuid(5)). In a user
//! namespace of its own (newuidmap(1)) a person can make a program that is setuid to such an id,
//! run it outside of the namespace, and is then in all respects another user. Quotas, paces and
//! penalties apply to a person, so each id is mapped back to the one to which it was delegated.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use nix::unistd::User;

/// The file with the delegations.
const DELEGATIONS: &str = "/etc/subuid";

/// The version of a file: inode, seconds, nanoseconds and size.
type Version = (u64, i64, i64, u64);

/// The delegations of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persons {
    /// In ascending order of the first id; of two that overlap, only the first in the file.
    ranges: Vec<Range>,
    version: Option<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    owner: u32,
}

impl Persons {
    /// Reads /etc/subuid. Skips names that no user has. Without the file nothing is delegated.
    ///
    /// It looks up the ids of names (getpwnam_r(3)), which may wait for a directory service.
    pub fn read() -> Self {
        let version = version();
        let text = fs::read_to_string(DELEGATIONS).unwrap_or_default();
        Self { version, ..Self::parse(&text, &id_of) }
    }

    /// Reads the file again if it has changed. Returns whether it had.
    pub fn refresh(&mut self) -> bool {
        let changed = version() != self.version;
        if changed {
            *self = Self::read();
        }
        changed
    }

    /// Returns the id of the person to whom `uid` was delegated, or `uid` itself if it was not
    /// delegated.
    ///
    /// An id delegated to root maps to itself: it has none of root's rights.
    pub fn of(&self, uid: u32) -> u32 {
        let before = self.ranges.partition_point(|range| range.first <= uid);
        match self.ranges[..before].last() {
            Some(range) if uid <= range.last => range.owner,
            _ => uid,
        }
    }

    fn parse(text: &str, id_of: &dyn Fn(&str) -> Option<u32>) -> Self {
        let mut ranges: Vec<Range> = Vec::new();
        for line in text.lines() {
            let mut fields = line.trim().split(':');
            let (Some(owner), Some(first), Some(count)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let owner = owner.parse().ok().or_else(|| id_of(owner));
            let (Some(owner), Ok(first), Ok(count)) =
                (owner, first.parse::<u32>(), count.parse::<u32>())
            else {
                continue;
            };
            let Some(last) = count.checked_sub(1).map(|more| first.saturating_add(more)) else {
                continue;
            };
            let overlaps = |other: &Range| first <= other.last && other.first <= last;
            if owner != 0 && !ranges.iter().any(overlaps) {
                ranges.push(Range { first, last, owner });
            }
        }
        ranges.sort_unstable_by_key(|range| range.first);
        Self { ranges, version: None }
    }
}

fn id_of(name: &str) -> Option<u32> {
    User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
}

fn version() -> Option<Version> {
    let of = fs::metadata(DELEGATIONS).ok()?;
    Some((of.ino(), of.mtime(), of.mtime_nsec(), of.size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Persons {
        Persons::parse(text, &|name| (name == "anna").then_some(1_000))
    }

    #[test]
    fn a_delegated_id_is_the_person_it_was_delegated_to() {
        let persons = parse("anna:100000:65536\n1001:165536:65536\nroot:300000:10\n0:400000:10\n");
        for (uid, person) in [
            (1_000, 1_000),
            (99_999, 99_999),
            (100_000, 1_000),
            (165_535, 1_000),
            (165_536, 1_001),
            (231_071, 1_001),
            (231_072, 231_072),
            (300_000, 300_000),
            (400_000, 400_000),
            (0, 0),
        ] {
            assert_eq!(persons.of(uid), person, "{uid}");
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        let text =
            "# a comment\n\nanna\nanna:x:1\nanna:5:0\nnemo:7:1\nanna:4294967295:9\nanna:1:2:3";
        let persons = parse(text);
        assert_eq!(persons.of(u32::MAX), 1_000);
        assert_eq!((persons.of(1), persons.of(2), persons.of(3)), (1_000, 1_000, 3));
        assert_eq!((persons.of(5), persons.of(7)), (5, 7));
        assert_eq!(parse(""), Persons::default());
    }

    #[test]
    fn of_ranges_that_overlap_the_first_holds() {
        let persons = parse("anna:10:10\n1001:15:10\n1001:20:1");
        assert_eq!(
            (persons.of(15), persons.of(19), persons.of(20), persons.of(21)),
            (1_000, 1_000, 1_001, 21)
        );
    }
}
