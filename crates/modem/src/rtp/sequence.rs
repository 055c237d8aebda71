//! Which packets belong to a stream (RFC 3550 A.1): a source must send two in a row before it is
//! believed, small gaps are loss, small steps back are reordering, and a jump counts only when a
//! second packet follows it.

/// A gap of so many packets or more is a jump and no loss: a minute of 20 ms packets.
pub const MAX_DROPOUT: u16 = 3_000;

/// Up to so many packets back is reordering.
pub const MAX_MISORDER: u16 = 100;

/// Packets in a row before a source is believed.
pub const MIN_SEQUENTIAL: u8 = 2;

/// What a packet's sequence number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that is not valid must not be played"]
pub enum Verdict {
    /// Not believed yet.
    Probation,
    /// The stream begins, or begins anew after a jump: with this packet.
    Begins {
        /// Its number, extended to 64 bits.
        extended: u64,
    },
    /// The stream goes on; packets between the last and this are missing so far.
    Next {
        /// Its number, extended to 64 bits.
        extended: u64,
    },
    /// Late, or a second time.
    Earlier {
        /// Its number, extended to 64 bits; `None` if it is from before the stream began.
        extended: Option<u64>,
    },
    /// Far from anything expected: valid only if its successor comes next.
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
    /// Nothing came.
    #[default]
    Nothing,
    /// So many more in a row are needed, and this number next.
    Probation { needed: u8, next: u16 },
    /// Believed; after a jump, this number would confirm it.
    Valid { confirms_jump: Option<u16> },
}

impl Sequence {
    /// Takes the sequence number of a packet that came.
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
        // One cycle up, so that packets from before it have numbers too.
        let extended = u64::from(number) + (1 << 16);
        self.state = State::Valid { confirms_jump: None };
        (self.begun, self.highest, self.received) = (extended, extended, 1);
        Verdict::Begins { extended }
    }

    /// Whether the source is believed.
    pub fn is_valid(&self) -> bool {
        matches!(self.state, State::Valid { .. })
    }

    /// Packets that should have come since the stream began (A.3).
    pub fn expected(&self) -> u64 {
        if self.is_valid() { self.highest - self.begun + 1 } else { 0 }
    }

    /// Packets that came since the stream began, duplicates included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Expected less received: negative where duplicates outnumber losses (A.3).
    pub fn lost(&self) -> i64 {
        self.expected() as i64 - self.received as i64
    }
}
