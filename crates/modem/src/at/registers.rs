//! The S registers: numeric parameters of a modem, each with its range (V.250 §6.2, §6.3; S1 and
//! S2, S9 and S12 are Hayes's).
//!
//! Only registers that have an effect exist; reading or writing any other is an ERROR.

use punctual_model::Duration;

/// An S register that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// S0: answer after this number of rings; 0 is never (V.250 §6.3.8).
    AutoAnswer,
    /// S1: rings of the present incoming call. Read-only.
    Rings,
    /// S2: the escape character; above 127 there is no escape.
    Escape,
    /// S3: ends a command line (V.250 §6.2.1).
    Terminator,
    /// S4: follows S3 in responses (V.250 §6.2.2).
    Formatter,
    /// S5: deletes a character (V.250 §6.2.3).
    Editing,
    /// S6: seconds before blind dialling (V.250 §6.3.9).
    BlindDial,
    /// S7: seconds to wait for a carrier (V.250 §6.3.10).
    Completion,
    /// S8: seconds of a comma (V.250 §6.3.11).
    Comma,
    /// S9: tenths of a second a carrier must last to count.
    CarrierDetect,
    /// S10: tenths of a second from the loss of the carrier to hanging up (V.250 §6.3.12).
    CarrierLoss,
    /// S12: fiftieths of a second of silence around the escape sequence.
    Guard,
}

/// Number, smallest, largest and factory value of each register, in [`Register`]'s order.
const TABLE: [(Register, u8, u8, u8, u8); 12] = [
    (Register::AutoAnswer, 0, 0, 255, 0),
    (Register::Rings, 1, 0, 255, 0),
    (Register::Escape, 2, 0, 255, b'+'),
    (Register::Terminator, 3, 0, 127, b'\r'),
    (Register::Formatter, 4, 0, 127, b'\n'),
    (Register::Editing, 5, 0, 127, 0x08),
    (Register::BlindDial, 6, 2, 10, 2),
    (Register::Completion, 7, 1, 255, 60),
    (Register::Comma, 8, 0, 255, 2),
    (Register::CarrierDetect, 9, 1, 255, 6),
    (Register::CarrierLoss, 10, 1, 254, 14),
    (Register::Guard, 12, 0, 255, 50),
];

impl Register {
    /// Returns the register with number `n`, as in `ATSn?`.
    pub fn numbered(n: u32) -> Option<Self> {
        TABLE.iter().find(|row| u32::from(row.1) == n).map(|row| row.0)
    }
}

/// The reason why a register cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The register is read-only.
    #[error("S1 counts rings and cannot be written; read it with S1?")]
    ReadOnly,
    /// The value is outside the register's range.
    #[error("S{number} takes {min} to {max}, not {value}")]
    Range {
        /// The register's number.
        number: u8,
        /// The value requested.
        value: u32,
        /// The smallest value it takes.
        min: u8,
        /// The largest value it takes.
        max: u8,
    },
}

/// The values of all registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    values: [u8; TABLE.len()],
}

impl Default for Registers {
    /// Returns the factory values.
    fn default() -> Self {
        Self { values: TABLE.map(|row| row.4) }
    }
}

impl Registers {
    /// Returns the value of `register`.
    pub fn get(&self, register: Register) -> u8 {
        self.values[register as usize]
    }

    /// Writes `register`, as `ATSn=value` does.
    pub fn set(&mut self, register: Register, value: u32) -> Result<(), RegisterError> {
        let (_, number, min, max, _) = TABLE[register as usize];
        if register == Register::Rings {
            return Err(RegisterError::ReadOnly);
        }
        match u8::try_from(value) {
            Ok(byte) if (min..=max).contains(&byte) => {
                self.values[register as usize] = byte;
                Ok(())
            }
            _ => Err(RegisterError::Range { number, value, min, max }),
        }
    }

    /// Writes S1, which counts rings; only the modem itself does.
    pub(super) fn set_rings(&mut self, rings: u8) {
        self.values[Register::Rings as usize] = rings;
    }

    /// Iterates over the registers' numbers and values, for `AT&V`.
    pub fn all(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        TABLE.iter().zip(self.values).map(|(row, value)| (row.1, value))
    }

    /// Returns S12 as a duration.
    pub fn guard(&self) -> Duration {
        Duration::from_millis(20 * u64::from(self.get(Register::Guard)))
    }

    /// Returns S7 as a duration.
    pub fn completion(&self) -> Duration {
        Duration::from_secs(u64::from(self.get(Register::Completion)))
    }

    /// Returns S9 as a duration.
    pub fn carrier_detect(&self) -> Duration {
        Duration::from_millis(100 * u64::from(self.get(Register::CarrierDetect)))
    }

    /// Returns S10 as a duration.
    pub fn carrier_loss(&self) -> Duration {
        Duration::from_millis(100 * u64::from(self.get(Register::CarrierLoss)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_each_factory_value_is_in_its_range() {
        for (index, (register, number, min, max, factory)) in TABLE.into_iter().enumerate() {
            assert_eq!(register as usize, index);
            assert!((min..=max).contains(&factory), "S{number}");
            assert_eq!(Register::numbered(number.into()), Some(register));
        }
        for absent in [11, 13, 25, 256] {
            assert_eq!(Register::numbered(absent), None);
        }
    }

    #[test]
    fn a_value_out_of_range_is_refused_and_changes_nothing() {
        let mut registers = Registers::default();
        let refused = registers.set(Register::BlindDial, 11).expect_err("S6 ends at 10");
        assert_eq!(refused.to_string(), "S6 takes 2 to 10, not 11");
        assert_eq!(registers, Registers::default());
        assert_eq!(registers.set(Register::Rings, 0), Err(RegisterError::ReadOnly));
        registers.set(Register::Guard, 25).expect("in range");
        assert_eq!(registers.guard(), Duration::from_millis(500));
    }
}
