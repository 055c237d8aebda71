//! A channel's queue, from its making until it can be attached.

use punctual_channel::client::Geometry;
use punctual_channel::rings::{Made, Passed, Puts, RingError, Side, Takes};
use punctual_model::channel::Direction;

/// A queue that was made and is not attached. The broker's own thread does not touch the parts of
/// it that the client can write.
#[derive(Debug)]
pub(super) enum Queue {
    Takes(Made<Takes>),
    Puts(Made<Puts>),
}

/// A queue that can be attached.
#[derive(Debug)]
pub(super) enum Frozen {
    Takes(Side<Takes>),
    Puts(Side<Puts>),
}

impl Queue {
    pub(super) fn new(
        direction: Direction,
        geometry: Geometry,
        first: u64,
    ) -> Result<(Self, Passed), RingError> {
        Ok(match direction {
            Direction::Send => {
                let (made, passed) = Made::new(geometry, first)?;
                (Self::Takes(made), passed)
            }
            Direction::Receive => {
                let (made, passed) = Made::new(geometry, first)?;
                (Self::Puts(made), passed)
            }
        })
    }

    /// Seals and freezes the queue. May wait for as long as the client likes.
    pub(super) fn seal_and_freeze(self) -> Result<Frozen, RingError> {
        match self {
            Self::Takes(made) => {
                made.seal()?;
                made.freeze().map(Frozen::Takes)
            }
            Self::Puts(made) => {
                made.seal()?;
                made.freeze().map(Frozen::Puts)
            }
        }
    }
}
