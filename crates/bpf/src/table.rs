//! A hash table that programs look up.

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use super::MapError;

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
