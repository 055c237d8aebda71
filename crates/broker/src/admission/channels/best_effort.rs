//! The shares of best-effort senders.

use punctual_model::Duration;
use punctual_model::channel::LinearBounded;

use super::AdmissionState;

impl AdmissionState {
    /// Returns each best-effort sender's rate on the link, in bits a second: everything that is not
    /// promised to channels, divided equally (L4ATM, §2.3).
    pub fn best_effort_bps(&self) -> u64 {
        self.best_effort_share().0
    }

    /// Returns each best-effort sender's share: of the link in bits a second, and of a CPU in parts
    /// per million.
    pub fn best_effort_share(&self) -> (u64, u64) {
        let Some((channels, carried)) = self.channels.as_ref().zip(self.system.carried()) else {
            return (1, 1);
        };
        let link = carried.carrier().link_bps();
        let senders = u64::from(channels.best_effort);
        let rest = if senders == 0 { 0 } else { link - carried.promised_bps() };
        let bps = rest.div_ceil(senders.max(1));
        let ppm = carried.best_effort_cpu_ppm() / senders.max(1);
        (bps.max(1), ppm.max(1))
    }

    /// Returns the time between two such messages of a best-effort sender: by its share of the link
    /// or of the processor, whichever is longer.
    pub fn best_effort_spacing(&self, arrivals: LinearBounded) -> Duration {
        let Some(carrier) = self.system.carried().map(|carried| *carried.carrier()) else {
            return arrivals.min_inter_arrival();
        };
        let (bps, ppm) = self.best_effort_share();
        let bytes = arrivals.max_message();
        let on_link = u128::from(carrier.on_wire(bytes)) * 8_000_000_000 / u128::from(bps);
        let packets = u128::from(carrier.egress.cut().packets_of(bytes));
        let work = packets * u128::from(carrier.egress.per_packet().as_nanos());
        let on_processor = work * 1_000_000 / u128::from(ppm);
        let longer = on_link.max(on_processor).saturating_add(1);
        Duration::from_nanos(u64::try_from(longer).unwrap_or(u64::MAX))
    }
}
