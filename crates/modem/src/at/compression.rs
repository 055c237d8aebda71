//! `+DS`: data compression (V.250 §6.6.1).

/// The directions that are compressed, seen from one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compressed {
    /// The data that this end sends.
    pub sent: bool,
    /// The data that this end receives.
    pub received: bool,
}

/// The compression that this end wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionSelection {
    /// The directions that it offers.
    pub offers: Compressed,
    /// True if it hangs up when the far end does not support all of them.
    pub required: bool,
}

impl CompressionSelection {
    /// Converts the numbers of `+DS`; returns `None` for values that this modem does not support.
    pub(super) fn from_numbers(direction: u32, required: bool) -> Option<Self> {
        let offers = Compressed { sent: direction & 1 != 0, received: direction & 2 != 0 };
        (direction <= 3).then_some(Self { offers, required })
    }

    /// Returns the first number of `+DS`: 0 none, 1 sent data, 2 received data, 3 both.
    pub fn direction(self) -> u8 {
        u8::from(self.offers.sent) | u8::from(self.offers.received) << 1
    }
}

impl Default for CompressionSelection {
    /// Returns `+DS=3,0`: both ways, if the far end can.
    fn default() -> Self {
        Self { offers: Compressed { sent: true, received: true }, required: false }
    }
}
