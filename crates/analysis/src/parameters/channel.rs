//! The parameters of a channel, in the form of its declaration.

use alloc::vec::Vec;

use punctual_model::channel::{
    AtmContract, BitRate, Channel, LinearBounded, Policing, ServiceClass, Traffic,
};
use punctual_model::units::MAX_NANOS;
use punctual_model::{Contract, Duration};

use super::{Numbers, Relief};
use crate::offer::Axis;

pub(super) fn parameters(contract: &Contract, at: usize) -> Vec<Numbers> {
    let channel = &contract.channels[at];
    let delay = channel.delay_bound().as_nanos();
    let mut parameters = Vec::from([(Axis::Delay, Relief::More, delay, 1, MAX_NANOS)]);
    parameters.extend(traffic_parameters(channel.traffic()));
    let route = contract.routes.iter().find(|route| route.channel == channel.name());
    if route.is_some_and(|route| route.policing != Policing::Gcra) {
        // Credits determine how much may come at once.
        parameters.retain(|(axis, ..)| !matches!(axis, Axis::Burst | Axis::Tolerance));
    }
    parameters
}

/// Returns the parameters of a receiving channel, which takes buffers but nothing of the link.
pub(super) fn receiving_parameters(contract: &Contract, at: usize) -> Vec<Numbers> {
    let mut parameters = traffic_parameters(&contract.receiving[at].traffic);
    parameters.retain(|(axis, ..)| matches!(axis, Axis::Size | Axis::Burst | Axis::Tolerance));
    parameters
}

fn traffic_parameters(traffic: &Traffic) -> Vec<Numbers> {
    let mut parameters = Vec::new();
    match traffic {
        Traffic::Bounded(bounded) => {
            let period = bounded.min_inter_arrival().as_nanos();
            let least = bounded.min_message().into();
            let (size, burst) = (bounded.max_message().into(), bounded.max_burst().into());
            parameters.push((Axis::Size, Relief::Less, size, least, u32::MAX.into()));
            parameters.push((Axis::MinSize, Relief::More, least, 1, size));
            parameters.push((Axis::Period, Relief::More, period, 1, MAX_NANOS));
            parameters.push((Axis::Burst, Relief::Less, burst, 1, u32::MAX.into()));
        }
        Traffic::Atm(contract) => {
            let spec = contract.spec();
            let rate = spec.sustained_rate.bits_per_second();
            let tolerance = spec.delay_variation_tolerance.as_nanos();
            let fastest = BitRate::MAX.bits_per_second();
            parameters.push((Axis::Size, Relief::Less, spec.max_sdu.into(), 1, u32::MAX.into()));
            parameters.push((Axis::Rate, Relief::Less, rate, 1, fastest));
            if tolerance > 0 {
                parameters.push((Axis::Tolerance, Relief::Less, tolerance, 0, MAX_NANOS));
            }
        }
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
    let channel = &original.channels[at];
    let (traffic, delay) = match axis {
        Axis::Delay => (*channel.traffic(), Duration::from_nanos(value)),
        _ => (traffic_with(*channel.traffic(), axis, value)?, channel.delay_bound()),
    };
    trial.channels[at] = Channel::new(channel.name(), &traffic, delay).ok()?;
    Some(())
}

pub(super) fn set_receiving(
    original: &Contract,
    at: usize,
    axis: Axis,
    value: u64,
    trial: &mut Contract,
) -> Option<()> {
    trial.receiving[at].traffic = traffic_with(original.receiving[at].traffic, axis, value)?;
    Some(())
}

fn traffic_with(traffic: Traffic, axis: Axis, value: u64) -> Option<Traffic> {
    Some(match traffic {
        Traffic::Bounded(bounded) => Traffic::Bounded(bounded_with(bounded, axis, value)?),
        Traffic::Atm(contract) => Traffic::Atm(atm_with(contract, axis, value)?),
    })
}

fn bounded_with(old: LinearBounded, axis: Axis, value: u64) -> Option<LinearBounded> {
    let (least, period) = (old.min_message(), old.min_inter_arrival());
    let (size, burst) = (old.max_message(), old.max_burst());
    let short = u32::try_from(value).ok();
    match axis {
        Axis::Size => LinearBounded::new(least, short?, period, burst),
        Axis::MinSize => LinearBounded::new(short?, size, period, burst),
        Axis::Period => LinearBounded::new(least, size, Duration::from_nanos(value), burst),
        Axis::Burst => LinearBounded::new(least, size, period, short?),
        _ => return None,
    }
    .ok()
}

fn atm_with(old: AtmContract, axis: Axis, value: u64) -> Option<AtmContract> {
    let mut spec = old.spec();
    match axis {
        Axis::Size => spec.max_sdu = u32::try_from(value).ok()?,
        Axis::Rate => {
            let rate = BitRate::new(value).ok()?;
            if spec.class == ServiceClass::Cbr || spec.peak_rate == spec.sustained_rate {
                spec.peak_rate = rate;
            }
            spec.sustained_rate = rate;
        }
        Axis::Tolerance => spec.delay_variation_tolerance = Duration::from_nanos(value),
        _ => return None,
    }
    AtmContract::new(spec).ok()
}
