//! What a verdict rests on: it proves no more than that.

/// How a promise was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// Arithmetic, before anything ran.
    Admission,
    /// The program of the contract, watched from outside.
    Program,
    /// Work that takes the declared time, run by the runtime in place of the user's code.
    Synthetic,
    /// Messages as the contract declares them, through the channels' sender, which nobody receives.
    EmulatedLink,
    /// What a broker counted of a channel that somebody uses.
    Broker,
}

impl Evidence {
    /// The word for it in tables and for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Program => "program",
            Self::Synthetic => "synthetic work",
            Self::EmulatedLink => "emulated link",
            Self::Broker => "broker",
        }
    }

    /// What it shows, and what not.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Admission => "the numbers of the contract were examined; nothing ran for it",
            Self::Program => {
                "the program itself ran; its threads were watched by the kernel's records"
            }
            Self::Synthetic => {
                "work that uses 95 % of the declared time ran in place of the code: it shows that host \
                 and runtime keep the promise, not that the code needs no more than was declared"
            }
            Self::EmulatedLink => {
                "messages of the largest size as often as declared went through the sender of channels \
                 to an emulated link: it shows that host and sender keep the promise, not that the \
                 programs and the network do"
            }
            Self::Broker => "the broker counted the messages of whoever holds the channel",
        }
    }
}
