//! The errors that several modules of this crate share.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use punctual_analysis::mapping::ExpandError;
use punctual_client::ClientError;
use punctual_model::Duration;
use serde::{Serialize, Serializer};

use crate::refusal::RefusalRecord;

/// An error that is reported to a person, as one or more sentences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The usage or the contract is wrong.
    #[error("{0}")]
    BadInput(Message),
    /// This host cannot do it. The message says what to do about it.
    #[error("{0}")]
    CannotHere(Message),
    /// The request is refused.
    #[error("{0}")]
    Refused(Box<RefusalRecord>),
}

impl Failure {
    /// Makes a [`Failure::BadInput`] from anything that reads as a sentence.
    pub fn bad_input(why: impl Display) -> Self {
        Self::BadInput(Message::new(why))
    }

    /// Makes a [`Failure::CannotHere`] from anything that reads as a sentence.
    pub fn cannot_here(why: impl Display) -> Self {
        Self::CannotHere(Message::new(why))
    }

    /// Makes a [`Failure::Refused`] from a refusal, or from a sentence alone.
    pub fn refused(why: impl Into<RefusalRecord>) -> Self {
        Self::Refused(Box::new(why.into()))
    }

    /// Returns the message.
    pub fn message(&self) -> &Message {
        match self {
            Self::BadInput(message) | Self::CannotHere(message) => message,
            Self::Refused(record) => &record.message,
        }
    }

    /// Adds the remedy that the message ends with.
    pub fn with(self, remedy: Remedy) -> Self {
        self.change(|message| message.with(remedy))
    }

    /// Says it in other words; the kind and the remedy stay.
    pub fn reworded(self, text: impl Display) -> Self {
        self.change(|message| message.reworded(text))
    }

    fn change(self, change: impl FnOnce(Message) -> Message) -> Self {
        match self {
            Self::BadInput(message) => Self::BadInput(change(message)),
            Self::CannotHere(message) => Self::CannotHere(change(message)),
            Self::Refused(mut record) => {
                record.message = change(record.message);
                Self::Refused(record)
            }
        }
    }
}

/// A sentence for a person, without a final full stop. It displays and serialises as its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    text: String,
    remedy: Option<Remedy>,
}

impl Message {
    /// Makes a message without a remedy.
    pub fn new(text: impl Display) -> Self {
        Self { text: text.to_string(), remedy: None }
    }

    /// Adds the remedy that the text ends with.
    pub fn with(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Says it in other words; the remedy stays.
    #[must_use]
    pub fn reworded(self, text: impl Display) -> Self {
        Self { text: text.to_string(), ..self }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the remedy that the text ends with.
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self { text, remedy: None }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// The remedy that a [`Message`] ends with. The text says it in words that hold for every front
/// end; a front end adds by which of its options or commands to do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Measure this host's costs ([`calibrate`](crate::calibrate)); into this file, if one is named.
    Calibrate(Option<PathBuf>),
    /// Replace the file.
    Replace,
    /// Start a broker.
    StartBroker,
    /// Let the broker grant it ([`Settings::broker`](crate::run::Settings::broker)).
    UseBroker,
    /// Have the kernel hold the first thread ([`Reserve::backend`](crate::run::Reserve::backend)).
    HoldByKernel,
    /// Keep CPUs from halting ([`Settings::awake`](crate::run::Settings::awake)).
    KeepAwake,
    /// Let CPUs halt.
    LetHalt,
    /// Explore other periods (`from` and `to` of `explore::Options`).
    Periods,
    /// Change the share of jobs of high criticality that need more
    /// ([`Options::high_jobs`](crate::simulate::Options::high_jobs)).
    HighJobs,
    /// Name another sender ([`Options::flood`](crate::simulate::Options::flood)).
    Flood,
    /// Change what joins ([`Options::join`](crate::simulate::Options::join)).
    Join,
    /// Change what leaves ([`Options::leave`](crate::simulate::Options::leave)).
    Leave,
    /// Let nothing join or leave.
    JoinAndLeave,
    /// Simulate less time ([`Options::until`](crate::simulate::Options::until)).
    Until(Duration),
    /// Steal the CPU less often ([`Options::stolen`](crate::simulate::Options::stolen)), or
    /// simulate less time.
    StolenOrUntil(Duration),
    /// Simulate the contract instead of a [`search`](crate::simulate::search).
    NoSearch,
}

impl From<&ClientError> for Message {
    fn from(error: &ClientError) -> Self {
        let message = Self::new(error);
        match error {
            ClientError::NoBroker { .. } => message.with(Remedy::StartBroker),
            _ => message,
        }
    }
}

impl From<ClientError> for Failure {
    /// Counts as a failure of the host.
    fn from(error: ClientError) -> Self {
        Self::CannotHere(Message::from(&error))
    }
}

impl From<ExpandError> for Failure {
    /// Counts as bad input.
    fn from(error: ExpandError) -> Self {
        let failure = Self::bad_input(&error);
        match error {
            ExpandError::NoCosts => failure.with(Remedy::Calibrate(None)),
            _ => failure,
        }
    }
}

/// The reason why an [export](crate::export) stopped.
#[cfg(feature = "export")]
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace cannot be read.
    #[error("{0}")]
    Read(#[from] Failure),
    /// The output cannot be written.
    #[error("cannot be written: {0}")]
    Write(#[from] std::io::Error),
}
