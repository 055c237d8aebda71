//! The test of a channel against the user's quota.

use punctual_analysis::Refusal;
use punctual_channel::rings;
use punctual_model::channel::{BitRate, Direction};

use super::super::percent;
use super::super::terms::{Requester, denied};
use super::AdmissionState;
use punctual_client::want::{Kind, WantedChannel};

impl AdmissionState {
    pub(super) fn within_channel_quota(
        &self,
        requester: &Requester,
        want: &WantedChannel,
    ) -> Result<(), Box<Refusal>> {
        let quota = &requester.quota.quota;
        if !quota.allow.contains(&Kind::Channels) {
            return Err(denied("quota", "this user may not have channels".into(), None));
        }
        let has =
            self.entries_of_channels()?.users.get(&requester.uid).copied().unwrap_or_default();
        if has.channels >= quota.max_grants {
            let most = quota.max_grants;
            let why = format!("this user has {} channels and may have {most}", has.channels);
            return Err(denied("quota", why, None));
        }
        let wanted = rings::bytes(want.geometry());
        let most = quota.queue_memory;
        if has.bytes.saturating_add(wanted) > most {
            let why = format!(
                "a queue of {wanted} bytes beside the {} that this user has is more than its {most} bytes \
                 of queue memory",
                has.bytes
            );
            return Err(denied("quota", why, None));
        }
        if want.direction == Direction::Receive || want.delay_bound.is_none() {
            return Ok(());
        }
        let Some(carrier) = self.system.carried().map(|carried| *carried.carrier()) else {
            return Ok(());
        };
        let link = u128::from(carrier.link_bps());
        let wanted = carrier.rate_of(want.arrivals).map_or(u64::MAX, BitRate::bits_per_second);
        let ppm = |bps: u64| (u128::from(bps) * 1_000_000 / link) as u64;
        if ppm(has.bps.saturating_add(wanted)) > quota.link_ppm {
            let (wanted, has, most) =
                (percent(ppm(wanted)), percent(ppm(has.bps)), percent(quota.link_ppm));
            let why = format!(
                "{wanted} of the link beside the {has} that this user has is more than its {most}"
            );
            return Err(denied("quota", why, None));
        }
        Ok(())
    }
}
