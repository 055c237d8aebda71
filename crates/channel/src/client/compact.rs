//! A sending channel as a line of text, for command lines and environment variables:
//! `40mbit/s,delay=5ms,max=1420B,burst=4,dest=192.0.2.7:4000`.

use std::fmt;
use std::str::FromStr;

use punctual_model::Duration;
use punctual_model::channel::{
    BitRate, HostPort, HostPortError, LinearBounded, Policing, Sensitivity, TooEarly, TrafficError,
};
use punctual_model::units::{Frequency, MessageBytes, UnitError};
use thiserror::Error;

/// The bytes of a datagram in a broker's packets unless it is configured otherwise.
pub const DATAGRAM: u32 = 1_420;

/// A sending channel as requested by a line of text.
///
/// ```
/// use punctual_channel::client::compact::Compact;
/// use punctual_model::Duration;
///
/// let asked: Compact = "8mbit/s,delay=5ms,max=1000B,dest=192.0.2.7:4000".parse()?;
/// assert_eq!(asked.delay_bound, Duration::from_millis(5));
/// // 1000 bytes of payload at 8 Mbit/s are a millisecond.
/// assert_eq!(asked.traffic.min_inter_arrival(), Duration::from_millis(1));
/// assert_eq!(asked.traffic.max_burst(), 1);
/// # Ok::<(), punctual_channel::client::compact::CompactError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compact {
    /// The sizes and the rate of messages. A rate in bits is one of messages of the largest size,
    /// headers not counted.
    pub traffic: LinearBounded,
    /// The bound from a message's logical arrival to its end on the link.
    pub delay_bound: Duration,
    /// The rule for early messages. With credits, the burst is the one that they let pass.
    pub policing: Policing,
    /// The treatment of early messages.
    pub too_early: TooEarly,
    /// The destination; `None` if the line has none.
    pub destination: Option<HostPort>,
}

/// The error in such a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompactError {
    /// The line or a part of it is empty.
    #[error("has an empty part; write {FORM}")]
    Empty,
    /// The line does not begin with a rate.
    #[error("begins with \"{0}\", which is no rate; write {FORM}")]
    NoRate(String),
    /// A key is unknown.
    #[error(
        "has the unknown part \"{0}\"; there are delay, max, min, burst, credits, too_early and dest"
    )]
    Unknown(String),
    /// A key occurs twice.
    #[error("says {0} twice; keep one")]
    Twice(&'static str),
    /// There is no delay bound.
    #[error("has no delay bound; add one, such as delay=5ms")]
    NoDelay,
    /// A value is no quantity.
    #[error("{key}: \"{text}\" {why}")]
    Quantity {
        /// The key.
        key: &'static str,
        /// The value.
        text: String,
        /// The reason.
        why: UnitError,
    },
    /// A value is no whole number from 1 on.
    #[error("{key}: \"{text}\" is no whole number from 1 to 4294967295")]
    Count {
        /// The key.
        key: &'static str,
        /// The value.
        text: String,
    },
    /// A value is none of the known words.
    #[error("{key}: there is no \"{text}\"; write one of {choices}")]
    Choice {
        /// The key.
        key: &'static str,
        /// The value.
        text: String,
        /// The known words.
        choices: String,
    },
    /// There is a burst beside credits.
    #[error(
        "has a burst beside credits, which let {0} messages pass at once; remove one of the two"
    )]
    BurstOfCredits(u32),
    /// The rate is invalid.
    /// The destination is invalid.
    #[error("dest: \"{text}\" {why}")]
    Destination {
        /// The value.
        text: String,
        /// The reason.
        why: HostPortError,
    },
    /// The delay bound is zero.
    #[error("the delay bound is zero; it must be at least 1ns")]
    ZeroDelay,
    /// The parts together are no valid traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

const FORM: &str = "a rate and what else there is to say, such as 40mbit/s,delay=5ms,max=1420B";

impl FromStr for Compact {
    type Err = CompactError;

    fn from_str(text: &str) -> Result<Self, CompactError> {
        let mut parts = text.split(',').map(str::trim);
        let rate = parts.next().filter(|rate| !rate.is_empty()).ok_or(CompactError::Empty)?;
        if rate.contains('=') {
            return Err(CompactError::NoRate(rate.to_owned()));
        }
        let [mut delay, mut max, mut min, mut burst, mut dest, mut credits, mut early] = [None; 7];
        for part in parts {
            let (key, value) = match part.split_once('=') {
                _ if part.is_empty() => return Err(CompactError::Empty),
                Some(pair) => pair,
                None => return Err(CompactError::Unknown(part.to_owned())),
            };
            let (key, place) = match key {
                "delay" => ("delay", &mut delay),
                "max" => ("max", &mut max),
                "min" => ("min", &mut min),
                "burst" => ("burst", &mut burst),
                "dest" => ("dest", &mut dest),
                "credits" => ("credits", &mut credits),
                "too_early" => ("too_early", &mut early),
                _ => return Err(CompactError::Unknown(part.to_owned())),
            };
            if place.replace(value).is_some() {
                return Err(CompactError::Twice(key));
            }
        }
        let max = bytes("max", max)?.unwrap_or(DATAGRAM);
        let min = bytes("min", min)?.unwrap_or(1);
        let given = burst.map(|text| count("burst", text)).transpose()?;
        let credits =
            credits.map(|text| choice("credits", text, &Sensitivity::NAMES)).transpose()?;
        let (policing, burst) = match (credits, given) {
            (None, burst) => (Policing::Gcra, burst.unwrap_or(1)),
            (Some(credits), None) => (Policing::Credits(credits), credits.largest_burst()),
            (Some(credits), Some(_)) => {
                return Err(CompactError::BurstOfCredits(credits.largest_burst()));
            }
        };
        let too_early =
            early.map(|text| choice("too_early", text, &TooEarly::NAMES)).transpose()?;
        let delay = delay.ok_or(CompactError::NoDelay)?;
        let delay_bound: Duration = quantity("delay", delay)?;
        if delay_bound.is_zero() {
            return Err(CompactError::ZeroDelay);
        }
        let destination = dest.map(|text| {
            text.parse().map_err(|why| CompactError::Destination { text: text.to_owned(), why })
        });
        Ok(Self {
            traffic: LinearBounded::new(min, max, spacing(rate, max)?, burst)?,
            delay_bound,
            policing,
            too_early: too_early.unwrap_or_default(),
            destination: destination.transpose()?,
        })
    }
}

/// Writes the line in the form in which it is parsed.
impl fmt::Display for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (traffic, delay) = (self.traffic, self.delay_bound);
        let (max, min, burst) = (traffic.max_message(), traffic.min_message(), traffic.max_burst());
        write!(f, "{}", traffic.min_inter_arrival())?;
        write!(f, ",delay={delay},max={max}B,min={min}B")?;
        match self.policing {
            Policing::Gcra => write!(f, ",burst={burst}")?,
            Policing::Credits(of) => write!(f, ",credits={}", name_of(of, &Sensitivity::NAMES))?,
        }
        if self.too_early != TooEarly::default() {
            write!(f, ",too_early={}", name_of(self.too_early, &TooEarly::NAMES))?;
        }
        self.destination.as_ref().map_or(Ok(()), |to| write!(f, ",dest={to}"))
    }
}

/// Returns the time between two messages: `40mbit/s` of messages of `max` bytes, `100/s`, or
/// `10ms`.
fn spacing(rate: &str, max: u32) -> Result<Duration, CompactError> {
    if let Ok(spacing) = rate.parse().map(|Frequency(spacing)| spacing).or_else(|_| rate.parse()) {
        return Ok(spacing);
    }
    Ok(quantity::<BitRate>("the rate", rate)?.time_of_below(max))
}

fn bytes(key: &'static str, text: Option<&str>) -> Result<Option<u32>, CompactError> {
    let Some(text) = text else { return Ok(None) };
    // A number without a unit is in bytes, as is usual for sizes of datagrams.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return count(key, text).map(Some);
    }
    quantity(key, text).map(|MessageBytes(bytes)| Some(bytes))
}

fn count(key: &'static str, text: &str) -> Result<u32, CompactError> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| CompactError::Count { key, text: text.to_owned() })
}

fn choice<T: Copy>(
    key: &'static str,
    text: &str,
    all: &[(&'static str, T)],
) -> Result<T, CompactError> {
    let found = all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let choices: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        CompactError::Choice { key, text: text.to_owned(), choices: choices.join(", ") }
    })
}

/// Returns the name of a value; every value has one.
fn name_of<T: PartialEq>(value: T, all: &[(&'static str, T)]) -> &'static str {
    all.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| *name)
}

fn quantity<T: FromStr<Err = UnitError>>(key: &'static str, text: &str) -> Result<T, CompactError> {
    text.parse().map_err(|why| CompactError::Quantity { key, text: text.to_owned(), why })
}

#[cfg(test)]
mod tests;
