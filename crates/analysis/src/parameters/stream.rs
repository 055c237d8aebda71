//! The parameters of a stream.

use alloc::vec::Vec;

use punctual_model::units::MAX_NANOS;
use punctual_model::{Contract, Duration, Stream, StreamClass};

use super::{Numbers, Relief};
use crate::offer::Axis;

pub(super) fn parameters(contract: &Contract, at: usize) -> Vec<Numbers> {
    let spec = contract.streams[at].spec();
    let mut parameters = Vec::from([
        (Axis::Delay, Relief::More, spec.delay.as_nanos(), 1, MAX_NANOS),
        (Axis::Period, Relief::More, spec.frame_period.as_nanos(), 1, MAX_NANOS),
        (Axis::Size, Relief::Less, spec.frame_size.into(), 1, u32::MAX.into()),
        (Axis::Burst, Relief::Less, spec.burst.into(), 1, u32::MAX.into()),
    ]);
    // A transaction or file with a lost part is useless.
    if matches!(spec.class, StreamClass::ContinuousMedia | StreamClass::HighBandwidthMessages) {
        parameters.push((Axis::Loss, Relief::More, spec.tolerated_loss_ppm.into(), 0, 999_999));
    }
    parameters
}

pub(super) fn set(
    original: &Contract,
    at: usize,
    axis: Axis,
    value: u64,
    trial: &mut Contract,
) -> Option<()> {
    let mut spec = original.streams[at].spec().clone();
    let short = u32::try_from(value).ok();
    match axis {
        Axis::Delay => spec.delay = Duration::from_nanos(value),
        Axis::Period => spec.frame_period = Duration::from_nanos(value),
        Axis::Size => spec.frame_size = short?,
        Axis::Burst => spec.burst = short?,
        Axis::Loss => spec.tolerated_loss_ppm = short?,
        _ => return None,
    }
    trial.streams[at] = Stream::new(spec).ok()?;
    Some(())
}
