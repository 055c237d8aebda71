//! Delay bounds: whether all messages are in time with one channel more, or under other reservations.

use punctual_analysis::reservation::of_the_kernel;
use punctual_analysis::{Refusal, Steps};
use punctual_model::channel::Channel;
use punctual_model::{Duration, Reservation};

use super::super::denied;
use super::{ChannelBooks, Entry, STEPS};
use crate::want::WantedChannel;

impl ChannelBooks {
    /// Everything that a channel is promised for, or nothing.
    pub(super) fn promise(
        &mut self,
        want: &WantedChannel,
        bound: Duration,
        entry: &mut Entry,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let rate = self
            .rate_of(want.arrivals)
            .ok_or_else(|| denied("link", "its rate is beyond all links".into(), None))?;
        let allowance = self.egress.looks_within();
        if bound <= allowance {
            let why = format!(
                "a delay bound of {bound} is not above the {allowance} that the channels' thread may \
                 take to wake up and look"
            );
            return Err(denied("delay-bound", why, None));
        }
        let Ok(channel) = Channel::new(want.name.clone(), &want.arrivals.into(), bound) else {
            return Err(denied("delay-bound", format!("a delay bound of {bound}"), None));
        };
        self.share.channel_starts(rate).map_err(|why| denied("link", why.to_string(), None))?;
        let added = self.processor.add(&channel, &self.above);
        let added = added.map_err(|why| denied("processor", why, None));
        let fits = added.and_then(|()| {
            let fits = self.in_time_with(&channel, &self.above, steps);
            fits.inspect_err(|_| self.processor.remove(&channel))
        });
        if let Err(denied) = fits {
            self.share.channel_ends(rate);
            return Err(denied);
        }
        self.density.add(&channel);
        (entry.channel, entry.rate) = (Some(channel), Some(rate));
        Ok(())
    }

    /// Whether all messages stay in time with one channel more.
    fn in_time_with(
        &self,
        more: &Channel,
        above: &[Reservation],
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if above.is_empty() && self.density.fits_with(more) {
            return Ok(());
        }
        let mut channels: Vec<Channel> =
            self.entries.values().filter_map(|entry| entry.channel.clone()).collect();
        channels.push(more.clone());
        if self.all_in_time(&channels, above, steps) {
            return Ok(());
        }
        let bound = more.delay_bound();
        let why = format!(
            "beside {} other channels, under {} reservations, not every message would have left in \
             time: with it, or with a delay bound of {bound} for it, the link has too much to do",
            channels.len() - 1,
            above.len()
        );
        Err(denied("delay-bound", why, None))
    }

    pub(super) fn all_in_time(
        &self,
        channels: &[Channel],
        above: &[Reservation],
        steps: &mut Steps,
    ) -> bool {
        self.egress.all_in_time(channels, &of_the_kernel(above.iter().copied()), steps)
    }

    /// The reservations that the kernel runs before the channels' threads, from here on, if all
    /// messages stay in time under them. Else nothing changes.
    pub fn run_below(&mut self, above: Vec<Reservation>) -> Result<(), Box<Refusal>> {
        let channels: Vec<Channel> =
            self.entries.values().filter_map(|entry| entry.channel.clone()).collect();
        let more = above.len() > self.above.len()
            || above.iter().any(|reservation| !self.above.contains(reservation));
        let steps = &mut Steps::new(STEPS);
        if more && !(self.processor.holds(&above) && self.all_in_time(&channels, &above, steps)) {
            let why = format!("beneath it one of {} channels would be late", channels.len());
            return Err(denied("channels", why, None));
        }
        self.above = above;
        Ok(())
    }
}
