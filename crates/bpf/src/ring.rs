//! Records that programs wrote into a ring buffer.

use std::fmt;

use libbpf_rs::{MapCore, MapType, RingBuffer, RingBufferBuilder};
use punctual_model::time::Duration;

use super::MapError;

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

    /// Reads all waiting records, and returns their number.
    pub fn drain(&self) -> usize {
        // Negative only if a callback returns an error, and ours do not.
        usize::try_from(self.0.consume_raw()).unwrap_or(0)
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
