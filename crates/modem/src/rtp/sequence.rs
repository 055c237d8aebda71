//! Decides which packets belong to a stream (RFC 3550 A.1): a source must send two in a row before
//! it is validated, small gaps are loss, small steps back are reordering, and a jump counts only if
//! a second packet follows it.

/// The smallest gap that is a jump and not a loss: a minute of 20 ms packets.
pub const MAX_DROPOUT: u16 = 3_000;

/// The largest step back that is reordering.
pub const MAX_MISORDER: u16 = 100;

/// Packets in a row before a source is validated.
pub const MIN_SEQUENTIAL: u8 = 2;

/// The classification of a packet by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that is not valid must not be played"]
pub enum Verdict {
    /// The source is not validated yet.
    Probation,
    /// The stream begins with this packet, or begins again after a jump.
    Begins {
        /// Its number, extended to 64 bits.
        extended: u64,
    },
    /// The stream continues; packets between the last and this one are missing so far.
    Next {
        /// Its number, extended to 64 bits.
        extended: u64,
    },
    /// The packet is late or a duplicate.
    Earlier {
        /// Its number, extended to 64 bits; `None` if it is from before the stream began.
        extended: Option<u64>,
    },
    /// Far from any expected number: valid only if its successor comes next.
    Jump,
}

/// The sequence numbers of one source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    state: State,
    begun: u64,
    highest: u64,
    received: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// No packet has come.
    #[default]
    Nothing,
    /// `needed` more packets in a row are required, `next` being the first.
    Probation { needed: u8, next: u16 },
    /// Validated; after a jump, this number would confirm it.
    Valid { confirms_jump: Option<u16> },
}

impl Sequence {
    /// Takes the sequence number of a received packet.
    pub fn packet(&mut self, number: u16) -> Verdict {
        match self.state {
            State::Probation { needed, next } if number == next => {
                if needed > 1 {
                    self.state =
                        State::Probation { needed: needed - 1, next: number.wrapping_add(1) };
                    return Verdict::Probation;
                }
                self.begin(number)
            }
            State::Nothing | State::Probation { .. } => {
                let next = number.wrapping_add(1);
                self.state = State::Probation { needed: MIN_SEQUENTIAL - 1, next };
                Verdict::Probation
            }
            State::Valid { confirms_jump } => self.of_valid(number, confirms_jump),
        }
    }

    fn of_valid(&mut self, number: u16, confirms_jump: Option<u16>) -> Verdict {
        let ahead = number.wrapping_sub(self.highest as u16);
        let behind = ahead.wrapping_neg();
        if (1..MAX_DROPOUT).contains(&ahead) {
            self.state = State::Valid { confirms_jump: None };
            self.highest += u64::from(ahead);
            self.received += 1;
            Verdict::Next { extended: self.highest }
        } else if behind < MAX_MISORDER {
            self.received += 1;
            let extended = self.highest.checked_sub(behind.into());
            Verdict::Earlier { extended: extended.filter(|&extended| extended >= self.begun) }
        } else if confirms_jump == Some(number) {
            self.begin(number)
        } else {
            self.state = State::Valid { confirms_jump: Some(number.wrapping_add(1)) };
            Verdict::Jump
        }
    }

    fn begin(&mut self, number: u16) -> Verdict {
        // One cycle up, so that earlier packets have numbers too.
        let extended = u64::from(number) + (1 << 16);
        self.state = State::Valid { confirms_jump: None };
        (self.begun, self.highest, self.received) = (extended, extended, 1);
        Verdict::Begins { extended }
    }

    /// Returns true if the source is validated.
    pub fn is_valid(&self) -> bool {
        matches!(self.state, State::Valid { .. })
    }

    /// Returns the number of packets that should have come since the stream began (A.3).
    pub fn expected(&self) -> u64 {
        if self.is_valid() { self.highest - self.begun + 1 } else { 0 }
    }

    /// Returns the number of packets that came since the stream began, including duplicates.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the expected minus the received packets: negative if duplicates outnumber losses
    /// (A.3).
    pub fn lost(&self) -> i64 {
        self.expected() as i64 - self.received as i64
    }
}
