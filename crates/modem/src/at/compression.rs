//! `+DS`: data compression (V.250 §6.6.1).

/// What is compressed, seen from the end that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compressed {
    /// What this end sends.
    pub sent: bool,
    /// What it receives.
    pub received: bool,
}

/// What this end wants of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionSelection {
    /// What it offers.
    pub offers: Compressed,
    /// Whether it hangs up where the far end does not have all of that.
    pub required: bool,
}

impl CompressionSelection {
    /// From the numbers of `+DS`; `None` for values that this modem does not have.
    pub(super) fn from_numbers(direction: u32, required: bool) -> Option<Self> {
        let offers = Compressed { sent: direction & 1 != 0, received: direction & 2 != 0 };
        (direction <= 3).then_some(Self { offers, required })
    }

    /// The first number of `+DS`: 0 none, 1 what it sends, 2 what it receives, 3 both.
    pub fn direction(self) -> u8 {
        u8::from(self.offers.sent) | u8::from(self.offers.received) << 1
    }
}

impl Default for CompressionSelection {
    /// `+DS=3,0`: both ways, where the far end can.
    fn default() -> Self {
        Self { offers: Compressed { sent: true, received: true }, required: false }
    }
}
