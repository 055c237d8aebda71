//! The modulations and their names.

use crate::modem::Role;

/// A modulation: the coding of bits as sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Modulation {
    /// ITU-T V.21: 300 bit/s both ways.
    V21,
    /// ITU-T V.23: 75 bit/s from the caller, 1200 bit/s to it.
    V23,
    /// Bell 103: 300 bit/s both ways.
    Bell103,
    /// ITU-T V.22bis: 2400 bit/s both ways.
    #[default]
    V22bis,
}

impl Modulation {
    /// All modulations.
    pub const ALL: [Self; 4] = [Self::V21, Self::V23, Self::Bell103, Self::V22bis];

    /// Returns the name in `AT+MS` (V.250 §6.4.1).
    pub fn name(self) -> &'static str {
        match self {
            Self::V21 => "V21",
            Self::V23 => "V23C",
            Self::Bell103 => "B103",
            Self::V22bis => "V22B",
        }
    }

    /// Returns the modulation with that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|modulation| modulation.name().eq_ignore_ascii_case(name))
    }

    /// Returns true if V.8 has a name for the modulation.
    pub fn is_negotiable(self) -> bool {
        self != Self::Bell103
    }

    /// Returns the modulations that an end which prefers this one offers: this and those slower
    /// than it, the fastest first.
    pub fn offers(self) -> impl Iterator<Item = Self> {
        let fastest_first = [Self::V22bis, Self::V23, Self::V21];
        fastest_first.into_iter().skip_while(move |&modulation| modulation != self)
    }

    /// Returns the bit/s that the calling and the answering end send.
    pub fn rates(self) -> (u32, u32) {
        match self {
            Self::V21 | Self::Bell103 => (300, 300),
            Self::V23 => (75, 1200),
            Self::V22bis => (2400, 2400),
        }
    }

    /// Returns the bit/s that the end with that role sends and receives.
    pub fn rates_of(self, role: Role) -> (u32, u32) {
        let (by_caller, by_answerer) = self.rates();
        match role {
            Role::Calling => (by_caller, by_answerer),
            Role::Answering => (by_answerer, by_caller),
        }
    }
}
