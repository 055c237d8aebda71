//! What each sender has that is promised nothing.

use punctual_model::Duration;
use punctual_model::channel::LinearBounded;

use super::ChannelBooks;

impl ChannelBooks {
    /// What each best-effort sender has of the link, in bits a second.
    pub fn best_effort_bps(&self) -> u64 {
        self.share.of_sender(0).max(1)
    }

    /// What each best-effort sender has: of the link in bits a second, and of a CPU in parts per million.
    pub fn best_effort_share(&self) -> (u64, u64) {
        let ppm = self.processor.left_ppm() / u64::from(self.best_effort.max(1));
        (self.best_effort_bps(), ppm.max(1))
    }

    /// The time between two such messages of a best-effort sender: by its share of the link, or of the
    /// processor, whichever is longer.
    pub fn best_effort_spacing(&self, arrivals: LinearBounded) -> Duration {
        let (bps, ppm) = self.best_effort_share();
        let bytes = arrivals.max_message();
        let on_link = u128::from(self.on_wire(bytes)) * 8_000_000_000 / u128::from(bps);
        let packets = u128::from(self.config.cut.packets_of(bytes));
        let work = packets * u128::from(self.config.per_packet.as_nanos());
        let on_processor = work * 1_000_000 / u128::from(ppm);
        let longer = on_link.max(on_processor).saturating_add(1);
        Duration::from_nanos(u64::try_from(longer).unwrap_or(u64::MAX))
    }
}
