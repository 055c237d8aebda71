//! The modulations behind one interface.

use crate::at::Modulation;
use crate::ffi::{Channel, Fsk, V22bis};
use crate::modem::{NoModem, Role};

use super::bits::Bits;

pub(super) enum Modem {
    V22bis(V22bis<Bits>),
    Fsk(Fsk<Bits>),
}

impl Modem {
    /// Creates a modem before its first sample.
    pub(super) fn new(bits: Bits, role: Role, modulation: Modulation) -> Result<Self, NoModem> {
        let calling = role == Role::Calling;
        let fsk = |low, high, bits| {
            let (sends, receives) = if calling { (low, high) } else { (high, low) };
            Fsk::new(sends, receives, bits).map(Self::Fsk)
        };
        Ok(match modulation {
            Modulation::V21 => fsk(Channel::V21Low, Channel::V21High, bits)?,
            Modulation::V23 => fsk(Channel::V23Backward, Channel::V23Forward, bits)?,
            Modulation::Bell103 => fsk(Channel::Bell103Low, Channel::Bell103High, bits)?,
            Modulation::V22bis => {
                let mut modem = V22bis::new(calling, bits)?;
                modem.watch();
                Self::V22bis(modem)
            }
        })
    }

    pub(super) fn bits(&self) -> &Bits {
        match self {
            Self::V22bis(modem) => modem.pipe(),
            Self::Fsk(modem) => modem.pipe(),
        }
    }

    /// Takes received samples.
    pub(super) fn rx(&mut self, samples: &[i16]) {
        match self {
            Self::V22bis(modem) => modem.rx(samples),
            Self::Fsk(modem) => modem.rx(samples),
        }
    }

    pub(super) fn bits_mut(&mut self) -> &mut Bits {
        match self {
            Self::V22bis(modem) => modem.pipe_mut(),
            Self::Fsk(modem) => modem.pipe_mut(),
        }
    }
}
