//! The TOML form of a [`Calibration`]: parsed raw, as unchecked strings and numbers with their
//! places, then validated into values that cannot be wrong. `write` writes it for people to read
//! and for the parser to read back unchanged.

#[cfg(test)]
mod tests;
mod write;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::Spanned;

use super::Calibration;
use crate::channel::{Framing, SendCosts};
use crate::host::{
    Absent, ArrivalCost, CacheRefill, Figure, HostIdentity, MessageCost, Operation, Percentile,
    ReceiveCharge, ReceiveCosts, Run, Sampled, SendCharge, Spread, StepCharge, SwitchCharge, Under,
};
use crate::text_file::{Checked, choice};
use crate::units::{Bytes, MessageBytes};
use crate::{Duration, FileError, Service, text_file};

/// The most entries of one kind in a file.
pub const MAX_ENTRIES: usize = 64;

/// The value of the key `format`. A change that older programs would misread gets another number.
const FORMAT: i64 = 1;

/// The longest text that is not a quantity, in characters.
const MAX_TEXT: usize = 512;

impl Calibration {
    /// Parses and validates the bytes of a host profile. `file` only appears in messages.
    ///
    /// The text that a [`Calibration`] displays parses back to the same calibration.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        parse(file, bytes)
    }
}

fn problem<T, R>(at: &Spanned<R>, text: impl Into<String>) -> Checked<T> {
    text_file::problem(at.span(), text)
}

fn parse(file: &str, bytes: &[u8]) -> Result<Calibration, FileError> {
    text_file::parse(file, "host profile", bytes, calibration)
}

fn calibration(raw: RawCalibration) -> Checked<Calibration> {
    if *raw.format.get_ref() != FORMAT {
        let given = raw.format.get_ref();
        return problem(
            &raw.format,
            format!(
                "this profile has format {given}, and this program reads format {FORMAT}; measure \
                 again (docs/calibrate.md)"
            ),
        );
    }
    check_count(&raw.figure)?;
    check_count(&raw.cache_refill)?;
    check_count(&raw.message)?;
    check_count(&raw.arrival)?;
    check_count(&raw.absent)?;
    let mut seen = BTreeSet::new();
    let figures = raw.figure.into_iter().map(|entry| figure(entry, &mut seen));
    let figures = figures.collect::<Checked<Vec<_>>>()?;
    let mut last = 0;
    let (mut sent, mut came) = (None, None);
    let messages = raw.message.into_iter().map(|entry| message(entry, &mut sent));
    let arrivals = raw.arrival.into_iter().map(|entry| arrival(entry, &mut came));
    let refills = raw.cache_refill.into_iter().map(|entry| refill(entry, &mut last));
    Ok(Calibration {
        host: host(raw.host)?,
        run: run(raw.run)?,
        switching: raw.switching.map(switching).transpose()?,
        sending: raw.sending.map(sending).transpose()?,
        receiving: raw.receiving.map(receiving).transpose()?,
        figures,
        cache_refill: refills.collect::<Checked<Vec<_>>>()?,
        messages: messages.collect::<Checked<Vec<_>>>()?,
        arrivals: arrivals.collect::<Checked<Vec<_>>>()?,
        absent: raw.absent.into_iter().map(absent).collect::<Checked<Vec<_>>>()?,
    })
}

fn check_count<T>(entries: &[Spanned<T>]) -> Checked<()> {
    match entries.get(MAX_ENTRIES) {
        Some(beyond) => problem(
            beyond,
            format!("there are {} entries of this kind; at most {MAX_ENTRIES}", entries.len()),
        ),
        None => Ok(()),
    }
}

fn host(raw: RawHost) -> Checked<HostIdentity> {
    Ok(HostIdentity {
        cpu_model: text("cpu_model", raw.cpu_model)?,
        kernel_release: text("kernel_release", raw.kernel_release)?,
        cpus: match u16::try_from(*raw.cpus.get_ref()) {
            Ok(cpus @ 1..) => cpus,
            _ => {
                let given = raw.cpus.get_ref();
                return problem(
                    &raw.cpus,
                    format!("cpus is {given}; it must be from 1 to {}", u16::MAX),
                );
            }
        },
    })
}

fn run(raw: RawRun) -> Checked<Run> {
    let at = &raw.at_unix_s;
    let at_unix_s = match u64::try_from(*at.get_ref()) {
        Ok(seconds) if seconds <= Run::LATEST => seconds,
        _ => {
            return problem(
                at,
                format!(
                    "at_unix_s is {}; it is seconds since 1970, from 0 to {}",
                    at.get_ref(),
                    Run::LATEST
                ),
            );
        }
    };
    Ok(Run {
        at_unix_s,
        duration: raw.duration,
        version: text("version", raw.version)?,
        quick: raw.quick,
        stolen: raw.stolen,
    })
}

fn switching(raw: RawSwitching) -> Checked<SwitchCharge> {
    Ok(SwitchCharge {
        switch: raw.switch,
        by: choice("operation", &raw.by, &Operation::NAMES)?,
        cache_refill: raw.cache_refill,
        working_set: working_set(&raw.working_set)?,
        percentile: raw.percentile,
    })
}

fn figure(raw: Spanned<RawFigure>, seen: &mut BTreeSet<Operation>) -> Checked<Figure> {
    let raw = raw.into_inner();
    let operation = choice("operation", &raw.operation, &Operation::NAMES)?;
    if !seen.insert(operation) {
        return problem(&raw.operation, format!("{operation} is there twice; keep one"));
    }
    Ok(Figure { operation, sampled: raw.sampled()? })
}

/// Validates one refill. `last` is the working set of the previous entry.
fn refill(raw: Spanned<RawRefill>, last: &mut u64) -> Checked<CacheRefill> {
    let raw = raw.into_inner();
    let bytes = working_set(&raw.working_set)?;
    if bytes <= *last {
        return problem(
            &raw.working_set,
            "the working sets are not in ascending order; sort the entries",
        );
    }
    *last = bytes;
    Ok(CacheRefill { working_set: bytes, sampled: raw.sampled()? })
}

fn absent(raw: Spanned<RawAbsent>) -> Checked<Absent> {
    let raw = raw.into_inner();
    Ok(Absent { what: text("what", raw.what)?, why: text("why", raw.why)? })
}

fn spread(samples: &Spanned<i64>, times: [Duration; 4]) -> Checked<Spread> {
    Spread::new(counted("samples", samples)?, times)
        .or_else(|error| problem(samples, error.to_string()))
}

fn working_set(raw: &Spanned<Bytes>) -> Checked<u64> {
    match raw.get_ref().0 {
        0 => problem(raw, "working_set is zero; it must be at least 1B"),
        bytes => Ok(bytes),
    }
}

/// Checks a text. Texts are printed to terminals, so they must not contain control characters.
fn text(key: &str, raw: Text) -> Checked<String> {
    let length = raw.get_ref().chars().count();
    if length == 0 || length > MAX_TEXT {
        return problem(&raw, format!("{key} has from 1 to {MAX_TEXT} characters"));
    }
    if raw.get_ref().chars().any(char::is_control) {
        return problem(&raw, format!("{key} has no control characters"));
    }
    Ok(raw.into_inner())
}

fn counted(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    u32::try_from(*raw.get_ref()).or_else(|_| {
        problem(raw, format!("{key} is {}; it must be from 0 to {}", raw.get_ref(), u32::MAX))
    })
}

fn sending(raw: RawSending) -> Checked<SendCharge> {
    let costs = SendCosts {
        switch: raw.switch,
        cache: raw.cache,
        first_packet: raw.first_packet,
        packet: raw.packet,
        link_scheduling: raw.link_scheduling,
    };
    raw.charge(costs)
}

fn receiving(raw: RawReceiving) -> Checked<ReceiveCharge> {
    let costs = ReceiveCosts {
        switch: raw.switch,
        cache: raw.cache,
        first_packet: raw.first_packet,
        packet: raw.packet,
    };
    raw.charge(costs)
}

/// Validates one message. `before` is the key of the previous entry.
fn message(raw: Spanned<RawMessage>, before: &mut Option<(u32, u32, u32)>) -> Checked<MessageCost> {
    let at = raw.span();
    let raw = raw.into_inner();
    let message = MessageCost {
        packet_bytes: packet_bytes("packet", &raw.packet)?,
        packets_per_block: at_least_one("packets_per_block", &raw.packets_per_block)?,
        packets: at_least_one("packets", &raw.packets)?,
        sampled: raw.sampled()?,
    };
    if before.is_some_and(|before| before >= message.key()) {
        return text_file::problem(
            at,
            "the messages are not in ascending order of packet, packets_per_block and packets, \
             each once; sort the entries",
        );
    }
    *before = Some(message.key());
    Ok(message)
}

/// Validates one arrival. `before` is the key of the previous entry.
fn arrival(
    raw: Spanned<RawArrival>,
    before: &mut Option<(u32, bool, u32)>,
) -> Checked<ArrivalCost> {
    let at = raw.span();
    let raw = raw.into_inner();
    let arrival = ArrivalCost {
        packet_bytes: packet_bytes("packet", &raw.packet)?,
        framing: choice("framing", &raw.framing, &Framing::NAMES)?,
        packets: at_least_one("packets", &raw.packets)?,
        sampled: raw.sampled()?,
    };
    if before.is_some_and(|before| before >= arrival.key()) {
        return text_file::problem(
            at,
            "the arrivals are not in ascending order of packet, framing (datagram first) and packets, \
             each once; sort the entries",
        );
    }
    *before = Some(arrival.key());
    Ok(arrival)
}

fn packet_bytes(key: &str, raw: &Spanned<MessageBytes>) -> Checked<u32> {
    match raw.get_ref().0 {
        bytes @ 1.. => Ok(bytes),
        0 => problem(raw, format!("{key} must be from 1B to {}B", u32::MAX)),
    }
}

fn at_least_one(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    match counted(key, raw)? {
        0 => problem(raw, format!("{key} is zero; it must be at least 1")),
        count => Ok(count),
    }
}

/// A text, with its place.
type Text = Spanned<String>;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCalibration {
    format: Spanned<i64>,
    host: RawHost,
    run: RawRun,
    switching: Option<RawSwitching>,
    sending: Option<RawSending>,
    receiving: Option<RawReceiving>,
    #[serde(default)]
    figure: Vec<Spanned<RawFigure>>,
    #[serde(default)]
    cache_refill: Vec<Spanned<RawRefill>>,
    #[serde(default)]
    message: Vec<Spanned<RawMessage>>,
    #[serde(default)]
    arrival: Vec<Spanned<RawArrival>>,
    #[serde(default)]
    absent: Vec<Spanned<RawAbsent>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    cpu_model: Text,
    kernel_release: Text,
    cpus: Spanned<i64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRun {
    at_unix_s: Spanned<i64>,
    duration: Duration,
    version: Text,
    #[serde(default)]
    quick: bool,
    stolen: Option<Duration>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitching {
    switch: Service,
    by: Text,
    cache_refill: Service,
    working_set: Spanned<Bytes>,
    percentile: Percentile,
}

/// Declares an entry with keys of its own and those that several kinds of entries have. It is a macro because a key
/// keeps its place, and an unknown one is refused, only in a struct that names all of them itself.
macro_rules! entry {
    ($name:ident, $own:tt, sampled) => {
        entry!($name, $own, {
            under: Text,
            samples: Spanned<i64>,
            min: Duration,
            p50: Duration,
            p99: Duration,
            max: Duration,
            discarded: Option<Spanned<i64>>,
            stolen: Option<Duration>,
        });

        impl $name {
            fn sampled(&self) -> Checked<Sampled> {
                Ok(Sampled {
                    under: choice("class", &self.under, &Under::NAMES)?,
                    spread: spread(&self.samples, [self.min, self.p50, self.p99, self.max])?,
                    discarded: self.discarded.as_ref().map_or(Ok(0), |at| counted("discarded", at))?,
                    stolen: self.stolen.unwrap_or_default(),
                })
            }
        }
    };
    ($name:ident, $own:tt, charge) => {
        entry!($name, $own, {
            path: Option<Text>,
            largest_packet: Option<Spanned<MessageBytes>>,
            percentile: Option<Percentile>,
        });

        impl $name {
            fn charge<C>(self, costs: C) -> Checked<StepCharge<C>> {
                let largest_packet = self.largest_packet;
                Ok(StepCharge {
                    costs,
                    path: self.path.map(|path| text("path", path)).transpose()?,
                    largest_packet: largest_packet
                        .map(|bytes| packet_bytes("largest_packet", &bytes))
                        .transpose()?,
                    percentile: self.percentile,
                })
            }
        }
    };
    ($name:ident, { $($own:ident: $own_type:ty,)* }, { $($key:ident: $type:ty,)* }) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name {
            $($own: $own_type,)*
            $($key: $type,)*
        }
    };
}

// The keys of `[sending.costs]` in a contract, and the conditions of their measurement.
entry!(RawSending, {
    switch: Service,
    cache: Service,
    first_packet: Service,
    packet: Service,
    link_scheduling: Service,
}, charge);

entry!(RawReceiving, {
    switch: Service,
    cache: Service,
    first_packet: Service,
    packet: Service,
}, charge);

entry!(RawFigure, { operation: Text, }, sampled);

entry!(RawRefill, { working_set: Spanned<Bytes>, }, sampled);

entry!(RawMessage, {
    packet: Spanned<MessageBytes>,
    packets_per_block: Spanned<i64>,
    packets: Spanned<i64>,
}, sampled);

entry!(RawArrival, { packet: Spanned<MessageBytes>, framing: Text, packets: Spanned<i64>, }, sampled);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAbsent {
    what: Text,
    why: Text,
}
