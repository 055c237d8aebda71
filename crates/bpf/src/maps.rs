//! Maps that programs and this process share: arrays, hash tables, and rings of records.
#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapInfo, MapType, RingBuffer, RingBufferBuilder, libbpf_sys,
};
use punctual_linux::mapping::Mapping;
use punctual_model::time::Duration;
use rustix::mm;

use super::MapError;

/// The entries of an array map, one after the other, each at a multiple of eight bytes.
///
/// The programs write to it concurrently, so it is accessed only as atomic words. A copy of several
/// words is consistent only if the programs are at rest.
#[derive(Debug)]
pub struct Array {
    memory: Mapping,
    value: usize,
    entries: usize,
}

impl Array {
    pub(super) fn of(map: &libbpf_rs::Map<'_>, name: &str) -> Result<Self, MapError> {
        let flags = MapInfo::new(map.as_fd()).map_or(0, |info| info.info.map_flags);
        let can_be_mapped = flags & libbpf_sys::BPF_F_MMAPABLE != 0;
        if map.map_type() != MapType::Array || !can_be_mapped {
            let wanted = "array that can be mapped (BPF_F_MMAPABLE)";
            return Err(MapError::Kind { map: name.to_owned(), wanted });
        }
        let (value, entries) = (map.value_size() as usize, map.max_entries() as usize);
        let bytes = value.next_multiple_of(8) * entries;
        let memory = Mapping::of(map.as_fd(), 0, bytes, true, mm::MapFlags::POPULATE);
        let memory = memory
            .map_err(|errno| MapError::Refused { map: name.to_owned(), why: errno.to_string() })?;
        Ok(Self { memory, value, entries })
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the length of an entry in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value
    }

    /// Returns the 64 bits at byte `at` of an entry.
    ///
    /// # Panics
    /// If the entry has no such 64 bits, or `at` is not a multiple of eight.
    pub fn word(&self, entry: usize, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.value, "no 64 bits at {at}");
        &self.words(entry)[at / 8]
    }

    /// Returns the 32 bits at byte `at` of an entry.
    ///
    /// # Panics
    /// If the entry has no such 32 bits, or `at` is not a multiple of four.
    pub fn half_word(&self, entry: usize, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.value, "no 32 bits at {at}");
        let word = &raw const self.words(entry)[at / 8];
        // SAFETY: this is half of a word of ours, aligned for it, and both we and the kernel access
        // it only atomically. A caller that mixes both sizes at one place risks tearing, but not
        // memory safety.
        unsafe { &*word.cast::<AtomicU32>().add(at % 8 / 4) }
    }

    /// Copies an entry.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn load(&self, entry: usize) -> Vec<u8> {
        let words = self.words(entry).iter();
        let mut bytes: Vec<u8> =
            words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        bytes.truncate(self.value);
        bytes
    }

    /// Overwrites the beginning of an entry with `bytes`; the rest stays.
    ///
    /// # Panics
    /// If there is no such entry, or it is shorter than `bytes`.
    pub fn store(&self, entry: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.value, "{} bytes into {}", bytes.len(), self.value);
        for (word, bytes) in self.words(entry).iter().zip(bytes.chunks(8)) {
            let mut whole = word.load(Ordering::Relaxed).to_ne_bytes();
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
    }

    fn words(&self, entry: usize) -> &[AtomicU64] {
        assert!(entry < self.entries, "no entry {entry} of {}", self.entries);
        let words = self.value.div_ceil(8);
        // SAFETY: the memory is writable, and a map keeps its size.
        let all = unsafe { self.memory.words() };
        &all[entry * words..][..words]
    }
}

/// A hash table (BPF_MAP_TYPE_HASH) with keys and values of fixed lengths.
#[derive(Debug)]
pub struct Table {
    map: MapHandle,
    name: String,
}

impl Table {
    pub(super) fn of(map: &libbpf_rs::Map<'_>, name: &str) -> Result<Self, MapError> {
        if map.map_type() != MapType::Hash {
            return Err(MapError::Kind { map: name.to_owned(), wanted: "hash table" });
        }
        let refuse = |why: libbpf_rs::Error| MapError::Refused {
            map: name.to_owned(),
            why: why.to_string(),
        };
        let map = MapHandle::try_from(map).map_err(refuse)?;
        Ok(Self { map, name: name.to_owned() })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`MapError::Refused`]: the table is full, or a length is not the table's.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), MapError> {
        self.map.update(key, value, MapFlags::ANY).map_err(|why| self.refuse(&why))
    }

    /// Returns the value of a key, or `None` if the key is not there.
    ///
    /// # Errors
    /// [`MapError::Refused`]: the length is not the table's.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MapError> {
        self.map.lookup(key, MapFlags::ANY).map_err(|why| self.refuse(&why))
    }

    /// Removes a key, and returns true if it was there.
    ///
    /// # Errors
    /// [`MapError::Refused`]: the length is not the table's.
    pub fn remove(&self, key: &[u8]) -> Result<bool, MapError> {
        match self.map.delete(key) {
            Ok(()) => Ok(true),
            Err(why) if why.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(self.refuse(&why)),
        }
    }

    fn refuse(&self, why: &libbpf_rs::Error) -> MapError {
        MapError::Refused { map: self.name.clone(), why: why.to_string() }
    }
}

/// The reading end of a ring buffer. Records written while it is full are lost; the programs have
/// to count them.
pub struct Ring<'a>(RingBuffer<'a>);

impl<'a> Ring<'a> {
    pub(super) fn of(
        map: &libbpf_rs::Map<'_>,
        name: &str,
        mut each: impl FnMut(&[u8]) + Send + 'a,
    ) -> Result<Self, MapError> {
        if map.map_type() != MapType::RingBuf {
            return Err(MapError::Kind { map: name.to_owned(), wanted: "ring buffer" });
        }
        let refuse = |why: libbpf_rs::Error| MapError::Refused {
            map: name.to_owned(),
            why: why.to_string(),
        };
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |record: &[u8]| {
                each(record);
                0
            })
            .map_err(refuse)?;
        builder.build().map(Self).map_err(refuse)
    }

    /// Reads the waiting records, at most `most`, and returns their number. Without a limit it would
    /// never end where records come as fast as they are read.
    pub fn drain(&self, most: usize) -> usize {
        // Negative only if a callback returns an error, and ours do not.
        usize::try_from(self.0.consume_raw_n(most)).unwrap_or(0)
    }

    /// Waits up to `patience`, to the millisecond, for records, reads them and returns their
    /// number.
    pub fn wait(&self, patience: Duration) -> usize {
        // A signal ends the wait early: then nothing was read.
        usize::try_from(self.0.poll_raw(std::time::Duration::from_nanos(patience.as_nanos())))
            .unwrap_or(0)
    }
}

impl fmt::Debug for Ring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ring")
    }
}
