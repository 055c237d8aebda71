//! A [`Calibration`] for programs, as JSON has it. Keys are never renamed, only added; times are nanoseconds.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{
    Absent, ArrivalCost, CacheRefill, Calibration, Figure, MessageCost, Percentile, ReceiveCosts,
    Sampled, StepCharge, SwitchCharge,
};
use crate::channel::SendCosts;
use crate::time::{Duration, Service};

impl Serialize for Calibration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { host, run, .. } = self;
        let mut page = serializer.serialize_struct("Calibration", 16)?;
        page.serialize_field("cpu_model", &host.cpu_model)?;
        page.serialize_field("kernel_release", &host.kernel_release)?;
        page.serialize_field("cpus", &host.cpus)?;
        page.serialize_field("at_unix_s", &run.at_unix_s)?;
        page.serialize_field("duration_ns", &run.duration.as_nanos())?;
        page.serialize_field("version", &run.version)?;
        page.serialize_field("quick", &run.quick)?;
        page.serialize_field("stolen_ns", &run.stolen.map(Duration::as_nanos))?;
        page.serialize_field("switching", &self.switching)?;
        page.serialize_field("figures", &self.figures)?;
        page.serialize_field("sending", &self.sending)?;
        page.serialize_field("receiving", &self.receiving)?;
        page.serialize_field("cache_refill", &self.cache_refill)?;
        page.serialize_field("messages", &self.messages)?;
        page.serialize_field("arrivals", &self.arrivals)?;
        page.serialize_field("absent", &self.absent)?;
        page.end()
    }
}

impl Serialize for SwitchCharge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut charge = serializer.serialize_struct("SwitchCharge", 6)?;
        service(&mut charge, "context_switch_ns", self.context_switch())?;
        service(&mut charge, "switch_ns", self.switch)?;
        charge.serialize_field("by", self.by.name())?;
        service(&mut charge, "cache_refill_ns", self.cache_refill)?;
        charge.serialize_field("working_set_bytes", &self.working_set)?;
        charge.serialize_field("percentile_ppm", &self.percentile.as_ppm())?;
        charge.end()
    }
}

impl Serialize for StepCharge<SendCosts> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SendCosts { switch, cache, first_packet, packet, link_scheduling } = self.costs;
        let mut charge = serializer.serialize_struct("SendCharge", 8)?;
        steps(&mut charge, [switch, cache, first_packet, packet])?;
        service(&mut charge, "link_scheduling_ns", link_scheduling)?;
        covers(&mut charge, self)?;
        charge.end()
    }
}

impl Serialize for StepCharge<ReceiveCosts> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ReceiveCosts { switch, cache, first_packet, packet } = self.costs;
        let mut charge = serializer.serialize_struct("ReceiveCharge", 8)?;
        steps(&mut charge, [switch, cache, first_packet, packet])?;
        // What any packet that comes in is charged.
        service(&mut charge, "per_packet_ns", self.costs.per_packet())?;
        covers(&mut charge, self)?;
        charge.end()
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut figure = serializer.serialize_struct("Figure", 9)?;
        figure.serialize_field("operation", self.operation.name())?;
        sampled(&mut figure, &self.sampled)?;
        figure.end()
    }
}

impl Serialize for CacheRefill {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut refill = serializer.serialize_struct("CacheRefill", 9)?;
        refill.serialize_field("working_set_bytes", &self.working_set)?;
        sampled(&mut refill, &self.sampled)?;
        refill.end()
    }
}

impl Serialize for MessageCost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_struct("MessageCost", 12)?;
        message.serialize_field("packet_bytes", &self.packet_bytes)?;
        message.serialize_field("packets_per_block", &self.packets_per_block)?;
        message.serialize_field("packets", &self.packets)?;
        sampled(&mut message, &self.sampled)?;
        message.serialize_field("bits_per_second", &self.bits_per_second())?;
        message.end()
    }
}

impl Serialize for ArrivalCost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut arrival = serializer.serialize_struct("ArrivalCost", 12)?;
        arrival.serialize_field("packet_bytes", &self.packet_bytes)?;
        arrival.serialize_field("framing", self.framing_name())?;
        arrival.serialize_field("packets", &self.packets)?;
        sampled(&mut arrival, &self.sampled)?;
        arrival.serialize_field("bits_per_second", &self.bits_per_second())?;
        arrival.end()
    }
}

impl Serialize for Absent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut absent = serializer.serialize_struct("Absent", 2)?;
        absent.serialize_field("what", &self.what)?;
        absent.serialize_field("why", &self.why)?;
        absent.end()
    }
}

fn service<S: SerializeStruct>(
    of: &mut S,
    key: &'static str,
    time: Service,
) -> Result<(), S::Error> {
    of.serialize_field(key, &time.as_nanos())
}

fn steps<S: SerializeStruct>(
    charge: &mut S,
    [switch, cache, first_packet, packet]: [Service; 4],
) -> Result<(), S::Error> {
    service(charge, "switch_ns", switch)?;
    service(charge, "cache_ns", cache)?;
    service(charge, "first_packet_ns", first_packet)?;
    service(charge, "packet_ns", packet)
}

fn covers<S: SerializeStruct, C>(to: &mut S, charge: &StepCharge<C>) -> Result<(), S::Error> {
    to.serialize_field("path", &charge.path)?;
    to.serialize_field("largest_packet_bytes", &charge.largest_packet)?;
    to.serialize_field("percentile_ppm", &charge.percentile.map(Percentile::as_ppm))
}

fn sampled<S: SerializeStruct>(to: &mut S, sampled: &Sampled) -> Result<(), S::Error> {
    let Sampled { under, spread, discarded, stolen } = sampled;
    to.serialize_field("under", under.name())?;
    to.serialize_field("samples", &spread.samples())?;
    to.serialize_field("min_ns", &spread.min().as_nanos())?;
    to.serialize_field("p50_ns", &spread.p50().as_nanos())?;
    to.serialize_field("p99_ns", &spread.p99().as_nanos())?;
    to.serialize_field("max_ns", &spread.max().as_nanos())?;
    to.serialize_field("discarded", discarded)?;
    to.serialize_field("stolen_ns", &stolen.as_nanos())
}
