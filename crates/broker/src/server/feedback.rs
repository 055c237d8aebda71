//! Events for holders: overuse, a host that can promise less, room that came free.

use std::rc::Rc;

use punctual_analysis::UpcallOrder;
use punctual_linux::clock;
use punctual_model::units::percent;
use punctual_model::{Duration, Instant};
use tracing::{info, warn};

use super::Server;
use super::refusals::short_ppm;
use super::start::{host_of, promised_cpus};
use crate::admission::AdmissionState;
use crate::dispatcher;
use crate::guard::{Breach, HeldBy, News, Order, Watched};
use crate::kernel::class::{level_of_grant, residual};
use crate::ledger::Record;
use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, Kind, Want};
use punctual_client::wire::{BrokerMessage, Event};

impl Server {
    /// Has the guard watch a grant, or hold it to its present terms. `cpu` is the admission state's
    /// number of the CPU that the thread of upcalls must not leave; `None` while the thread is
    /// being moved. Returns whether the guard got the order.
    pub(super) fn police(&mut self, record: &Record, want: &Want, cpu: Option<u32>) -> bool {
        // The dispatcher polices it.
        if want.what.kind() == Kind::Program {
            return true;
        }
        let person = self.persons.of(record.uid);
        let watched = Watched {
            cpu: self.kernel_cpu(cpu),
            ..watched(record, want, person, self.means.order)
        };
        self.guard.order(&Order::Watch(watched))
    }

    /// Has the guard watch a grant that is in force.
    pub(super) fn police_live(&mut self, id: GrantId) {
        let Some(live) = self.grants.get(&id) else { return };
        let (record, want, cpu) = (live.record.clone(), live.want.clone(), live.cpu);
        self.police(&record, &want, cpu);
    }

    /// Handles all pending news of the guard.
    pub(super) fn guard_news(&mut self) {
        while let Some(news) = self.guard.news() {
            match news {
                News::Alive { used, looks } => {
                    self.guard_looks = looks;
                    for (id, ppm) in used {
                        if let Some(live) = self.grants.get_mut(&id) {
                            live.used_ppm = Some(ppm);
                        }
                    }
                }
                News::Synced(_) => {}
                News::Near { grant, used_ppm } => {
                    let granted_ppm = self.granted_to(grant);
                    self.tell_holder(grant, &Event::NearLimit { used_ppm, granted_ppm });
                }
                News::Over { grant, used_ppm, owed, most, within } => {
                    let granted_ppm = self.granted_to(grant);
                    warn!(id = %grant, used_ppm, granted_ppm, owed, "more used than granted");
                    let within_ms = within / 1_000_000;
                    let (owed_ns, most_ns) = (owed, most);
                    let event =
                        Event::Broken { used_ppm, granted_ppm, owed_ns, most_ns, within_ms };
                    self.tell_holder(grant, &event);
                }
                News::Taken { grant, why: Breach::Overuse { used_ppm, owed } } => {
                    self.punish(grant, used_ppm, owed);
                }
                News::Taken { grant, why: Breach::Moved } => self.revoke(
                    grant,
                    "its thread may run on other CPUs than the one where it was admitted",
                ),
                // The grant ends with its thread; the process may go on.
                News::Ended { grant } => self.end(grant, "its thread has ended"),
                News::Unseen { grant } => {
                    self.revoke(grant, "its use cannot be seen: the guard has no descriptors left");
                }
            }
        }
    }

    /// Handles all pending news of the dispatcher.
    pub(super) fn dispatcher_news(&mut self) {
        while let Some(news) = self.dispatcher.as_mut().and_then(dispatcher::Keeper::news) {
            match news {
                dispatcher::News::Used(used) => {
                    for (id, ppm) in used {
                        if let Some(live) = self.grants.get_mut(&id) {
                            live.used_ppm = Some(ppm);
                        }
                    }
                }
                dispatcher::News::BrokeOut { grant, why } => {
                    let Some(live) = self.grants.get(&grant) else { continue };
                    let person = self.persons.of(live.record.uid);
                    self.banned.insert(person, clock::now() + self.config.penalty);
                    self.revoke(grant, &why);
                }
                // Answers are waited for.
                dispatcher::News::Begun(_)
                | dispatcher::News::Done { .. }
                | dispatcher::News::Released { .. } => {}
            }
        }
    }

    fn granted_to(&self, id: GrantId) -> u64 {
        self.grants.get(&id).map_or(0, |live| live.want.what.share_ppm())
    }

    fn punish(&mut self, id: GrantId, used_ppm: u64, owed: u64) {
        let Some(live) = self.grants.get(&id) else { return };
        let person = self.persons.of(live.record.uid);
        self.banned.insert(person, clock::now() + self.config.penalty);
        let (granted_ppm, owed) = (self.granted_to(id), Duration::from_micros(owed / 1_000));
        let why = format!(
            "it used {} of a CPU, was granted {}, and did not pay back {owed} that it had used ahead",
            percent(used_ppm),
            percent(granted_ppm)
        );
        self.revoke(id, &why);
    }

    /// Tells every client that was refused something that there is room.
    pub(super) fn tell_of_room(&mut self) {
        let ppm = self.admission.capacity_ppm().saturating_sub(self.admission.granted_ppm());
        let waiting =
            self.connections.iter_mut().filter_map(|(id, one)| one.refused.take().map(|_| *id));
        for id in waiting.collect::<Vec<_>>() {
            self.say(
                id,
                &BrokerMessage::Event { grant: None, event: Event::MoreAvailable { ppm } },
            );
        }
    }

    /// Checks whether the host can still promise the same: CPUs come and go, and other programs set
    /// limits too.
    pub(super) fn hold_against_the_host(&mut self, now: Instant) {
        // Compare the CPUs, not their number: one may go while another comes back.
        let cpus = promised_cpus(&self.config);
        let same = cpus == self.means.cpus;
        self.means.cpus = cpus;
        if same && host_of(&self.config, &self.options, &self.means) == *self.admission.host() {
            return;
        }
        info!(cpus = ?self.means.cpus, "what the host may promise has changed");
        self.rebuild(now);
    }

    /// Enters everything anew, under the present configuration and host. Grants that do not fit, or
    /// that exceed their user's quota, are to be given back, the newest first.
    pub(super) fn rebuild(&mut self, now: Instant) {
        let host = host_of(&self.config, &self.options, &self.means);
        let mut admission = AdmissionState::new(host, self.means.order);
        // First, because they are carried whatever is decided.
        for denied in admission.take_over_channels(&self.admission) {
            warn!(%denied, "the host has no room for what channels were promised any more");
        }
        let until = now + self.config.choose;
        let mut over = Vec::new();
        // Then the residuals, because they exist too.
        for (id, record) in &self.residuals {
            if let Ok(Want { what: Guarantee::Reservation(had), .. }) =
                Want::try_from(record.want.clone())
            {
                let requester = self.requester(record.uid, &record.gids);
                admission.remains(*id, &requester, had, residual(had), now);
            }
        }
        for (id, live) in &mut self.grants {
            let requester = crate::admission::Requester {
                uid: live.record.uid,
                quota: self.config.quotas.of(live.record.uid, &live.record.gids),
            };
            match admission.admit(*id, &requester, &live.want.what, now) {
                Ok(cpu) => live.cpu = cpu,
                Err(denied) => {
                    // The number of its CPU may be another CPU's by now.
                    live.cpu = None;
                    over.push((*id, requester, denied));
                }
            }
        }
        self.admission = admission;
        let known = std::mem::take(&mut self.over);
        for (id, requester, denied) in over {
            let Some(live) = self.grants.get(&id) else { continue };
            let want = live.want.clone();
            let must_free_ppm = want.what.share_ppm();
            warn!(%id, uid = requester.uid, why = %denied, "no room any more");
            let offers = self.offers(id, &requester, &want);
            // A holder that was told before keeps its earlier deadline.
            let until = known.get(&id).copied().unwrap_or(until);
            self.over.insert(id, until);
            let within_ms = until.saturating_since(now).as_nanos() / 1_000_000;
            let must_free_ppm = short_ppm(&denied).unwrap_or(must_free_ppm);
            self.tell_holder(id, &Event::Choose { must_free_ppm, within_ms, offers });
        }
        self.pin_again();
    }

    /// Moves the threads whose CPU has changed in the admission state.
    fn pin_again(&mut self) {
        let all: Vec<GrantId> = self.grants.keys().copied().collect();
        for id in &all {
            let Some(live) = self.grants.get(id) else { continue };
            let (record, want) = (live.record.clone(), live.want.clone());
            self.police(&record, &want, None);
        }
        let mut lost = Vec::new();
        for id in &all {
            let Some(live) = self.grants.get(id) else { continue };
            let Some(held) = self.held.get(&live.record.process) else { continue };
            let moved = live.cpu.is_some() && !self.over.contains_key(id);
            let (holder, want, cpu) = (Rc::clone(&held.peer), live.want.clone(), live.cpu);
            let (uid, started) = (live.record.uid, live.record.thread_start);
            let put = |server: &mut Self| {
                server.put_in_force(*id, &holder.process, uid, &want, started, cpu)
            };
            if moved && put(self).is_err() {
                lost.push(*id);
            }
        }
        for id in lost {
            self.revoke(id, "it cannot be moved to the CPU where there is room for it");
        }
    }

    /// Revokes grants that were not given back in time.
    pub(super) fn revoke_what_is_over(&mut self, now: Instant) {
        let late: Vec<GrantId> =
            self.over.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.revoke(id, "the host has no room for it any more");
        }
    }
}

/// Returns the guard's view of a grant, without a CPU.
pub(super) fn watched(record: &Record, want: &Want, person: u32, order: UpcallOrder) -> Watched {
    let what = &want.what;
    let held = match (what.kind(), level_of_grant(order, what)) {
        // The kernel holds a reservation to its budget by itself.
        (Kind::Reservation, _) => HeldBy::Kernel,
        (_, Some(level)) => HeldBy::Level(level),
        (_, None) => HeldBy::LevelOrder,
    };
    Watched {
        grant: record.id,
        person,
        process: record.process,
        thread: want.thread.as_raw(),
        thread_start: record.thread_start,
        share_ppm: what.share_ppm(),
        burst: what.burst().as_nanos(),
        longest: longest(want).as_nanos(),
        held,
        cpu: None,
    }
}

fn longest(want: &Want) -> Duration {
    match &want.what {
        Guarantee::Upcalls(upcalls) => {
            upcalls.iter().map(punctual_model::Upcall::period).max().unwrap_or(Duration::ZERO)
        }
        Guarantee::Reservation(reservation) | Guarantee::Program { reservation, .. } => {
            reservation.period()
        }
        Guarantee::Priority { .. } => Duration::ZERO,
    }
}
