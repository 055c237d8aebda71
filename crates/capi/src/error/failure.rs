//! Turns errors of the runtime into error numbers and sentences.

use punctual_linux::sched::SchedError;
use punctual_model::best_effort::BestEffortError;
use punctual_model::reservation::ReservationError;
use punctual_model::upcall::UpcallError;
use punctual_runtime::reservation::{self, Refused};
use punctual_runtime::{CreateError, OrderError, StartError};

use super::punctual_error::{self, *};

/// The error of a failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: punctual_error,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(error: punctual_error, sentence: impl Into<String>) -> Self {
        Self { error, sentence: sentence.into() }
    }

    /// Makes an error for an argument that is not valid.
    pub(crate) fn invalid(sentence: impl Into<String>) -> Self {
        Self::new(PUNCTUAL_EINVAL, sentence)
    }
}

impl From<CreateError> for Failure {
    fn from(why: CreateError) -> Self {
        let error = match &why {
            CreateError::Refused(_) | CreateError::NoRoom { .. } => PUNCTUAL_EREFUSED,
            CreateError::BestEffort { .. } => PUNCTUAL_EINVAL,
            CreateError::NoSuchUpcall { .. } => PUNCTUAL_ENOENT,
            CreateError::Ended => PUNCTUAL_EENDED,
        };
        Self::new(error, why.to_string())
    }
}

impl From<OrderError> for Failure {
    fn from(why: OrderError) -> Self {
        let error = match &why {
            OrderError::NoSuchUpcall { .. } => PUNCTUAL_ENOENT,
            OrderError::StillOut { .. } => PUNCTUAL_ESTUCK,
            OrderError::Ended => PUNCTUAL_EENDED,
        };
        Self::new(error, why.to_string())
    }
}

impl From<StartError> for Failure {
    fn from(why: StartError) -> Self {
        let error = match &why {
            StartError::NoBandwidth { .. } | StartError::Class(SchedError::NoBandwidth { .. }) => {
                PUNCTUAL_EREFUSED
            }
            _ => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<reservation::StartError> for Failure {
    fn from(why: reservation::StartError) -> Self {
        Self::new(PUNCTUAL_EHOST, why.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(why: Refused) -> Self {
        let error = match &why {
            Refused::DoesNotFit { .. }
            | Refused::NoRoom { .. }
            | Refused::TooMany { .. }
            | Refused::NoBandwidth { .. } => PUNCTUAL_EREFUSED,
            Refused::AlreadyReserved { .. } => PUNCTUAL_EINVAL,
            Refused::Gone => PUNCTUAL_ENOENT,
            Refused::Unsuitable(_)
            | Refused::Class(_)
            | Refused::Group(_)
            | Refused::Start(_)
            | Refused::Io(_) => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<UpcallError> for Failure {
    fn from(why: UpcallError) -> Self {
        Self::invalid(format!("the contract cannot be: {why}"))
    }
}

impl From<BestEffortError> for Failure {
    fn from(why: BestEffortError) -> Self {
        Self::invalid(format!("the contract cannot be: {why}"))
    }
}

impl From<ReservationError> for Failure {
    fn from(why: ReservationError) -> Self {
        Self::invalid(format!("the reservation cannot be: {why}"))
    }
}
