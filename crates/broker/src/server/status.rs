//! The answers to status requests.

use punctual_model::Duration;

use super::Server;
use super::start::context_switch;
use crate::kernel::peer::Peer;
use punctual_client::grant::GrantId;
use punctual_client::want::Guarantee;
use punctual_client::wire::{GrantStatus, MAX_MESSAGE, RefusedStatus, Status, Totals, to_bytes};

/// Grants on a page: with the longest words it stays below the longest message.
const PAGE: usize = 100;

/// The length of a description, in characters.
const WORDS: usize = 120;

impl Server {
    /// Returns which users' grants a peer may see. Root and the broker's own user, which reads its
    /// metrics, see everything; every other user sees its own.
    pub(super) fn sees(peer: &Peer) -> impl Fn(u32) -> bool {
        let (of, ours) = (peer.uid, rustix::process::geteuid().as_raw());
        move |uid| of == 0 || of == ours || of == uid
    }

    /// Returns a page of the grants.
    pub(super) fn status(&self, peer: &Peer, after: Option<GrantId>) -> Status {
        let sees = Self::sees(peer);
        let mut grants = Vec::new();
        let mut more = false;
        for (id, live) in &self.grants {
            if !sees(live.record.uid) || after.is_some_and(|after| *id <= after) {
                continue;
            }
            if grants.len() == PAGE {
                more = true;
                break;
            }
            let disconnected = self
                .held
                .get(&live.record.process)
                .is_none_or(|held| held.disconnected_since.is_some());
            let job = job_every(&live.want.what);
            grants.push(GrantStatus {
                grant: *id,
                kind: live.want.what.kind(),
                uid: live.record.uid,
                pid: live.record.process.pid,
                thread: live.want.thread.as_raw(),
                what: live.want.what.to_string().chars().take(WORDS).collect(),
                share_ppm: live.want.what.share_ppm(),
                budget_ns: job.map(|_| live.want.what.burst().as_nanos()),
                period_ns: job.map(Duration::as_nanos),
                used_ppm: live.used_ppm,
                cpu: self.kernel_cpu(live.cpu),
                since: live.record.since,
                connected: !disconnected,
            });
        }
        let admission = &self.admission;
        let (_, source) = context_switch(&self.config, &self.options);
        let totals = Totals {
            cpus: admission.host().cpus.into(),
            reservable_ppm: admission.host().reservable_ppm,
            context_switch_ns: admission.host().context_switch.as_nanos(),
            context_switch_from: source.chars().take(WORDS).collect(),
            granted_ppm: admission.granted_ppm(),
            grants: self.grants.len() as u64,
            connections: self.connections.len() as u64,
            quota_ppm: self.requester(peer.uid, &peer.gids).quota.quota.share_ppm,
            yours_ppm: admission.of_user(peer.uid),
            refused: self.refused,
            guard: self.guard_looks,
        };
        // Only on the first page.
        let refusals: Vec<RefusedStatus> = match after {
            Some(_) => Vec::new(),
            None => self.refusals.iter().filter(|refusal| sees(refusal.uid)).cloned().collect(),
        };
        let mut status = Status { totals, grants, more, refusals };
        // Names may be longer in JSON than in memory: then return a shorter page.
        while to_bytes(&status).is_none_or(|bytes| bytes.len() > MAX_MESSAGE - 64)
            && status.grants.len() > 1
        {
            status.grants.truncate(status.grants.len() / 2);
            status.refusals.clear();
            status.more = true;
        }
        status
    }
}

/// Returns the interval at which the thread of a grant has a job with a declared deadline; `None`
/// if it runs several upcalls, whose jobs cannot be distinguished from outside, or was promised no
/// time.
fn job_every(what: &Guarantee) -> Option<Duration> {
    match what {
        Guarantee::Upcalls(upcalls) if upcalls.len() > 1 => None,
        other => other.shortest_period(),
    }
}
