//! Refusals: with the numbers, counter-offers, and a record for status requests.

use punctual_analysis::{Refusal, Shortfall};
use punctual_linux::clock;
use punctual_linux::sched::SchedError;
use tracing::{info, warn};

use super::Server;
use crate::admission::Requester;
use crate::kernel::GiveError;
use crate::kernel::peer::Peer;
use crate::ledger::since_1970;
use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, RawWant, Want};
use punctual_client::wire::{KERNEL, Offered, Refused, RefusedChannel, RefusedStatus};

/// The reason why a request ends without a grant.
pub(super) enum Stop {
    Refused(Refused),
    Channel(RefusedChannel),
    /// A sentence.
    Error(String),
}

/// The most refusals that status shows.
pub(super) const MOST_REFUSALS: usize = 32;

impl Server {
    pub(super) fn has_room(
        &mut self,
        connection: u64,
        peer: &Peer,
        want: &Want,
    ) -> Result<(), Stop> {
        let now = clock::now();
        let (test, why) = if let Some(until) =
            self.banned.get(&self.persons.of(peer.uid)).filter(|until| **until > now)
        {
            let left = until.saturating_since(now);
            (
                "conduct",
                format!(
                    "a grant of this user was revoked, because it broke its terms; ask again in {left}"
                ),
            )
        } else if !self.over.is_empty() {
            (
                "host",
                "the host has got tighter, and grants are being given back; ask again later".into(),
            )
        } else {
            return Ok(());
        };
        let refused = Refused { test: test.into(), why, short_ppm: None, offers: Vec::new() };
        self.note(connection, peer, &want.what, &refused);
        Err(Stop::Refused(refused))
    }

    /// Checks that the user has not sent requests too often. Root, which needs no broker, is not
    /// counted.
    ///
    /// A refusal here is neither logged nor recorded: that would be the work that it is to spare.
    pub(super) fn at_its_pace(&mut self, peer: &Peer) -> Result<(), Stop> {
        if peer.uid == 0 {
            return Ok(());
        }
        self.pace.ask(self.persons.of(peer.uid), clock::now()).map_err(|wait| {
            let why = format!("this user has asked too often; ask again in {wait}");
            Stop::Refused(Refused { test: "pace".into(), why, short_ppm: None, offers: Vec::new() })
        })
    }

    /// Checks whether a user may try to attach a queue. Each try counts, until it has succeeded.
    pub(super) fn may_attach(&mut self, peer: &Peer) -> Result<(), Stop> {
        if peer.uid == 0 {
            return Ok(());
        }
        self.attach_pace.ask(self.persons.of(peer.uid), clock::now()).map_err(|wait| {
            let why = format!(
                "this user has had too many queues made and not attached; ask again in {wait}"
            );
            Stop::Error(why)
        })
    }

    /// Records that a queue was attached.
    pub(super) fn has_attached(&mut self, peer: &Peer) {
        self.attach_pace.take_back(self.persons.of(peer.uid));
    }

    pub(super) fn denied(
        &mut self,
        connection: u64,
        peer: &Peer,
        id: GrantId,
        want: &Want,
        refusal: Box<Refusal>,
    ) -> Stop {
        let requester = self.requester(peer.uid, &peer.gids);
        let offers = self.offers(id, &requester, want);
        let short_ppm = short_ppm(&refusal);
        let refused = Refused { test: refusal.test.into(), why: refusal.why, short_ppm, offers };
        self.note(connection, peer, &want.what, &refused);
        Stop::Refused(refused)
    }

    pub(super) fn offers(
        &mut self,
        id: GrantId,
        requester: &Requester,
        want: &Want,
    ) -> Vec<Offered> {
        let offers = self.admission.offers(id, requester, &want.what, clock::now());
        let whole = |(change, what)| Offered {
            change,
            want: RawWant::from(&Want { thread: want.thread, what }),
        };
        offers.into_iter().map(whole).collect()
    }

    /// Converts the kernel's error: into a refusal if it has no room, else into an error.
    pub(super) fn not_given(
        &mut self,
        connection: u64,
        peer: &Peer,
        want: &Want,
        why: GiveError,
    ) -> Stop {
        match why {
            GiveError::Class(SchedError::NoBandwidth { .. }) => {
                let refused = Refused {
                    test: KERNEL.into(),
                    why: why.to_string(),
                    short_ppm: None,
                    offers: Vec::new(),
                };
                self.note(connection, peer, &want.what, &refused);
                Stop::Refused(refused)
            }
            why => {
                warn!(%why, uid = peer.uid, pid = peer.process.id.pid, "not given");
                Stop::Error(why.to_string())
            }
        }
    }

    fn note(&mut self, connection: u64, peer: &Peer, what: &Guarantee, refused: &Refused) {
        let (uid, pid) = (peer.uid, peer.process.id.pid);
        let (what, why) = (shorten(what), shorten(&refused.why));
        info!(uid, pid, what, test = refused.test, why, "refused");
        let status = RefusedStatus { at: since_1970(), uid, pid, what, why };
        self.refused += 1;
        self.refusals.push_front(status.clone());
        self.refusals.truncate(MOST_REFUSALS);
        self.unwritten.push(status);
        if self.unwritten.len() >= MOST_REFUSALS {
            self.write_refusals();
        }
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.refused = Some(clock::now());
        }
    }
}

/// Returns the share of a CPU by which a request is too large, if that is the reason.
pub(super) fn short_ppm(refusal: &Refusal) -> Option<u64> {
    match refusal.shortfall? {
        Shortfall::Share(ppm) => Some(ppm),
        Shortfall::Time(_) | Shortfall::Bytes(_) => None,
    }
}

/// Shortens a text to what a page of refusals, or a line of the log, has room for.
pub(super) fn shorten(text: &impl ToString) -> String {
    text.to_string().chars().take(200).collect()
}
