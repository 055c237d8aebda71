//! Counter-offers for refused channels.
//!
//! Numbers are searched by bisection with admission itself as the judge, so every offer was
//! admitted when it was made.

use punctual_analysis::Steps;
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};

use super::super::PART_FOR_OFFERS;
use super::super::terms::Requester;
use super::{AdmissionState, ChannelOffer};
use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;

/// Tries of one search.
const TRIES: u32 = 12;

/// The most by which an offered delay bound or spacing exceeds the request, as a factor.
const FURTHEST: u64 = 64;

impl AdmissionState {
    /// Returns channels that would be admitted in place of the refused `want`: with another delay
    /// bound, rate or message size. If `id` is entered, they replace it.
    pub fn channel_offers(
        &mut self,
        id: GrantId,
        requester: &Requester,
        want: &WantedChannel,
        now: Instant,
    ) -> Vec<ChannelOffer> {
        let before = self.channels.as_mut().and_then(|channels| channels.uncount(id));
        let is_change = before.is_some();
        let mut left = Steps::new(self.steps / PART_FOR_OFFERS).briefly();
        let mut fits = |want: &WantedChannel| {
            let mut steps = left.half();
            let fits = self.within_channel_quota(requester, want).is_ok()
                && self
                    .asking(want, |system, request| match is_change {
                        true => system.would_change(id, request, now, &mut steps),
                        false => system.would_admit(id, request, &mut steps),
                    })
                    .is_ok();
            left.put_back(steps);
            fits
        };
        let mut offers = Vec::new();
        if let Some(asked) = want.delay_bound {
            let with = |nanos| WantedChannel {
                delay_bound: Some(Duration::from_nanos(nanos)),
                ..want.clone()
            };
            let found = least_above(asked.as_nanos(), |nanos| fits(&with(nanos)));
            offers.extend(found.map(|nanos| {
                (format!("a delay bound of {}", Duration::from_nanos(nanos)), with(nanos))
            }));
        }
        let of = want.arrivals;
        let with = |bytes: u32, spacing: u64| {
            let least = of.min_message().min(bytes);
            let spacing = Duration::from_nanos(spacing);
            let arrivals = LinearBounded::new(least, bytes, spacing, of.max_burst()).ok()?;
            Some(WantedChannel { arrivals, ..want.clone() })
        };
        let (bytes, spacing) = (of.max_message(), of.min_inter_arrival().as_nanos());
        let found =
            least_above(spacing, |spacing| with(bytes, spacing).is_some_and(|want| fits(&want)));
        offers.extend(found.and_then(|spacing| {
            let text = format!("messages every {}", Duration::from_nanos(spacing));
            Some((text, with(bytes, spacing)?))
        }));
        let mut good = |bytes: u64| {
            // At most the requested size.
            with(bytes as u32, spacing).is_some_and(|want| fits(&want))
        };
        // Search for the largest size that fits.
        let most = u64::from(bytes);
        if most > 1 && good(1) {
            let (mut fit, mut not) = (1, most);
            for _ in 0..TRIES {
                let middle = fit + (not - fit) / 2;
                if middle == fit {
                    break;
                }
                if good(middle) { fit = middle } else { not = middle }
            }
            let shorter = with(fit as u32, spacing);
            offers.extend(shorter.map(|want| (format!("messages of at most {fit} bytes"), want)));
        }
        before.into_iter().for_each(|entry| self.count_again(id, entry));
        offers
    }
}

/// Returns the least number above `asked` that fits, up to [`FURTHEST`] times it, within 2⁻¹² of
/// the range.
fn least_above(asked: u64, mut fits: impl FnMut(u64) -> bool) -> Option<u64> {
    // Double first: a number that fits is mostly near.
    let mut good = asked;
    let mut bad;
    loop {
        bad = good;
        good = good.checked_mul(2).filter(|good| *good / FURTHEST <= asked)?;
        if fits(good) {
            break;
        }
    }
    for _ in 0..TRIES {
        let middle = bad + (good - bad) / 2;
        if middle == bad {
            break;
        }
        if fits(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}
