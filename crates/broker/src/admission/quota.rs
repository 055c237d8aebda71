//! The test of a request against the user's quota.

use punctual_analysis::Refusal;

use super::terms::{Requester, denied};
use super::{AdmissionState, percent};
use crate::config::Quota;
use punctual_client::want::Guarantee;

impl AdmissionState {
    pub(super) fn within_quota(
        &self,
        requester: &Requester,
        what: &Guarantee,
    ) -> Result<(), Box<Refusal>> {
        let Quota { share_ppm, together_ppm, max_grants, shortest_period, allow, .. } =
            &requester.quota.quota;
        let kind = what.kind();
        if !allow.contains(&kind) {
            return Err(denied("quota", format!("this user may not have {kind}"), None));
        }
        if let Some(period) = what.shortest_period()
            && period < *shortest_period
        {
            let why = format!(
                "the period {period} is shorter than {shortest_period}, the shortest this user may have"
            );
            return Err(denied("quota", why, None));
        }
        let least = requester.quota.quota.least_reservation_ppm;
        if let Guarantee::Reservation(reservation) = what
            && what.share_ppm() < least
        {
            let why = format!(
                "{reservation} is less than {} of a CPU, the least this user may reserve: a thread \
                 that takes a little more than so little waits for too long, whatever it has locked",
                percent(least)
            );
            return Err(denied("quota", why, None));
        }
        let mut of_user = self.users.get(&requester.uid).copied().unwrap_or_default();
        let left = self.left_behind(|residual| residual.uid == requester.uid);
        of_user.ppm += left.ppm;
        of_user.grants += left.grants;
        if of_user.grants >= *max_grants {
            let why = format!("this user has {} grants and may have {max_grants}", of_user.grants);
            return Err(denied("quota", why, None));
        }
        let wanted = what.share_ppm();
        let within = |has: u64, limit: u64, whose: &str| match (has + wanted).checked_sub(limit) {
            None | Some(0) => Ok(()),
            Some(short) => {
                let (wanted, has, limit) = (percent(wanted), percent(has), percent(limit));
                let why = format!(
                    "{wanted} of a CPU beside the {has} that {whose} has is more than its {limit}"
                );
                Err(denied("quota", why, Some(short)))
            }
        };
        within(of_user.ppm, *share_ppm, "this user")?;
        match (requester.quota.group, together_ppm) {
            (Some(gid), Some(limit)) => {
                let left = self.left_behind(|residual| residual.group == Some(gid));
                within(self.of_group(gid) + left.ppm, *limit, "this user's group")
            }
            _ => Ok(()),
        }
    }
}
