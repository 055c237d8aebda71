//! Tests whether a contract fits on a host, and explains the answer.

mod json;
mod timetable;

use punctual_analysis::mapping::Mapping;
use punctual_analysis::{Grant, Refusal, Sensitivity, Steps, sensitivity};
use punctual_model::Contract;

pub use timetable::{TimetableRow, TimetableShare};

use crate::contract::Declared;
use crate::host::{Chosen, Stamp};

/// The answer to a contract. It serialises as `punctual admit --json` prints it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The contract.
    pub contract: Contract,
    /// The numbers under which it fits, or what does not fit and what would.
    pub outcome: Result<Grant, Box<Refusal>>,
    /// The explanation, if one was asked for.
    pub explanation: Option<Explanation>,
    /// The assumed costs of switches and sending, and their source.
    pub host_profile: Stamp,
    /// Parts of the file that the contract does not cover.
    pub notes: Vec<String>,
}

/// An explanation of an answer, beside the derivation of each stream ([`Answer::mappings`]).
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The room of an admitted contract; `None` if the contract is refused.
    pub room: Option<Room>,
}

/// The alternatives to an admitted contract as it is.
#[derive(Clone, Debug)]
pub struct Room {
    /// How far each number can go while the others stay as they are.
    pub growth: Sensitivity,
    /// The shares of its reservations in a timetable, and the cost of that.
    pub timetable: Vec<TimetableRow>,
}

impl Answer {
    /// Admits a contract to a host, or refuses it. An explanation takes several times as long.
    ///
    /// # Examples
    /// ```
    /// use punctual::admission::Answer;
    /// use punctual::contract::Declared;
    /// use punctual::host::choose;
    /// use punctual::model::Contract;
    ///
    /// let text = "[[task]]\nname = 'mixer'\nperiod = '10ms'\nwcet = '2ms'\n";
    /// let contract = Contract::parse("audio.toml", text.as_bytes())?;
    /// let declared = Declared { contract, notes: Vec::new(), text: text.to_owned() };
    /// let answer = Answer::new(declared, choose(Some("ideal".as_ref()))?, true);
    /// let json = serde_json::to_value(&answer)?;
    /// assert_eq!(json["admitted"], true);
    /// assert_eq!(json["tasks"][0]["response_time_bound_ns"], 2_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(declared: Declared, chosen: Chosen, explain: bool) -> Self {
        let Declared { contract, notes, .. } = declared;
        let Chosen { host, stamp, .. } = chosen;
        let outcome = punctual_analysis::admit(&contract, &host);
        let explanation = explain.then(|| Explanation {
            room: outcome.as_ref().ok().map(|grant| Room {
                growth: sensitivity(&contract, &host, 5 * Steps::ADMISSION),
                timetable: timetable::rows(grant, &host),
            }),
        });
        Self { contract, outcome, explanation, host_profile: stamp, notes }
    }

    /// Returns the derivations of the streams, whether they were admitted or not.
    pub fn mappings(&self) -> &[Mapping] {
        match &self.outcome {
            Ok(grant) => &grant.streams,
            Err(refusal) => &refusal.streams,
        }
    }
}
