//! Exports the questions that the commands `admit`, `simulate`, `why` and `doctor` answer.
//!
//! In the order of the header:
//! - `result`: an answer as JSON and as one number.
//! - `contracts`: whether a contract is admitted, and how it runs in virtual time.
//! - `evidence`: what a trace file proves, and what this host can promise.

mod result;

mod contracts;

mod evidence;

pub use contracts::{
    punctual_admit, punctual_arrivals, punctual_declaration, punctual_exec_times,
    punctual_simulate, punctual_simulation,
};
pub use evidence::{punctual_doctor, punctual_why};
pub use result::{
    punctual_result, punctual_result_code, punctual_result_free, punctual_result_json,
    punctual_verdict,
};

use crate::error::Failure;
use crate::error::punctual_error::{PUNCTUAL_EHOST, PUNCTUAL_EINVAL, PUNCTUAL_EREFUSED};

impl From<punctual::Failure> for Failure {
    fn from(why: punctual::Failure) -> Self {
        let error = match &why {
            punctual::Failure::BadInput(_) => PUNCTUAL_EINVAL,
            punctual::Failure::CannotHere(_) => PUNCTUAL_EHOST,
            punctual::Failure::Refused(_) => PUNCTUAL_EREFUSED,
        };
        Self::new(error, why.to_string())
    }
}
