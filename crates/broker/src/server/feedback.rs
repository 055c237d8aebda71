//! What holders are told unasked: their use, a host that got tighter, room that came free.

use punctual_linux::thread;
use punctual_model::{Duration, Instant};
use tracing::{info, warn};

use super::Server;
use super::start::{host_of, promised_cpus};
use crate::books::Books;
use crate::grant::GrantId;
use crate::kernel::take::remnant;
use crate::want::{Kind, Want, What};
use crate::wire::{Event, Said};

/// Grants that are looked at in one go: bounds what looking costs however many there are.
const AT_A_GO: usize = 128;

/// The shortest window over which use is judged, and it holds at least four periods.
const WINDOW: Duration = Duration::from_secs(1);

/// Use beyond the share that is not yet a breach: clocks and windows are not exact.
const TOLERANCE_PPM: u64 = 50_000;

/// Windows in a row with a breach after which the grant is revoked.
const PATIENCE: u32 = 3;

impl Server {
    /// Looks at what the next few grants have used.
    pub(super) fn look_at_use(&mut self, now: Instant) {
        let after = self
            .grants
            .range((std::ops::Bound::Excluded(self.sampled), std::ops::Bound::Unbounded));
        let mut ids: Vec<GrantId> = after.take(AT_A_GO).map(|(id, _)| *id).collect();
        if ids.len() < AT_A_GO {
            let first = self.grants.range(..=self.sampled).take(AT_A_GO - ids.len());
            ids.extend(first.map(|(id, _)| *id));
        }
        let here = thread::affinity();
        for id in ids {
            self.sampled = id;
            if self.has_moved(id, &here) {
                self.revoke(
                    id,
                    "its thread may run on other CPUs than the one where it was admitted",
                );
            } else {
                self.look_at(id, now);
            }
        }
    }

    /// Whether the thread of some upcalls has left its CPU: anybody may change the CPUs of their
    /// threads (sched_setaffinity(2)). `here` are the CPUs there are: the kernel moves whatever ran on
    /// one that goes.
    fn has_moved(&self, id: GrantId, here: &[usize]) -> bool {
        let Some(live) = self.grants.get(&id) else { return false };
        let Some(cpu) = self.kernel_cpu(live.cpu).map(|cpu| cpu as usize) else { return false };
        let now = thread::affinity_of(live.want.thread);
        // No CPU: it has ended.
        here.contains(&cpu) && !now.is_empty() && now != [cpu] && !self.over.contains_key(&id)
    }

    fn look_at(&mut self, id: GrantId, now: Instant) {
        let Some(live) = self.grants.get_mut(&id) else { return };
        let what = &live.want.what;
        let least = what.shortest_period().map_or(WINDOW, |_| WINDOW.max(longest(&live.want) * 4));
        let window = match live.meter.look(now, least) {
            Ok(None) => return,
            Ok(Some(window)) => window,
            // The thread has ended, and with it what it was granted; the process may go on.
            Err(_) => return self.end(id, "its thread has ended"),
        };
        let (used_ppm, granted_ppm) = (window.ppm(), what.share_ppm());
        // The kernel holds a reservation to its budget by itself.
        let by_kernel = what.kind() == Kind::Reservation;
        let broken = !by_kernel
            && window.exceeds(granted_ppm + granted_ppm * TOLERANCE_PPM / 1_000_000, what.burst());
        if broken {
            live.broken += 1;
            let times = live.broken;
            warn!(%id, uid = live.record.uid, used_ppm, granted_ppm, times, "more used than granted");
            self.tell_holder(id, &Event::Broken { used_ppm, granted_ppm, times });
            if times >= PATIENCE {
                self.punish(id, used_ppm, granted_ppm, now);
            }
            return;
        }
        live.broken = 0;
        let near = used_ppm * 10 >= granted_ppm * 9;
        // Told once, until it has been well below.
        let tell = near && !live.near;
        live.near = near || (live.near && used_ppm * 10 >= granted_ppm * 8);
        if tell {
            self.tell_holder(id, &Event::NearLimit { used_ppm, granted_ppm });
        }
    }

    fn punish(&mut self, id: GrantId, used_ppm: u64, granted_ppm: u64, now: Instant) {
        let Some(live) = self.grants.get(&id) else { return };
        let person = self.persons.of(live.record.uid);
        self.banned.insert(person, now + self.config.penalty);
        let why =
            format!("it used {used_ppm} parts per million of a CPU and was granted {granted_ppm}");
        self.revoke(id, &why);
    }

    /// Whoever was refused something is told that there is room.
    pub(super) fn tell_of_room(&mut self) {
        let ppm = self.books.capacity_ppm().saturating_sub(self.books.granted_ppm());
        let waiting =
            self.connections.iter_mut().filter_map(|(id, one)| one.refused.take().map(|_| *id));
        for id in waiting.collect::<Vec<_>>() {
            self.say(id, &Said::Event { grant: None, event: Event::MoreAvailable { ppm } });
        }
    }

    /// CPUs come and go, and limits are set by others too.
    pub(super) fn hold_against_the_host(&mut self, now: Instant) {
        // Which, not how many: one may go while another comes back.
        let cpus = promised_cpus(&self.config);
        let same = cpus == self.means.cpus;
        self.means.cpus = cpus;
        if same && host_of(&self.config, &self.options, &self.means) == self.books.host() {
            return;
        }
        info!(cpus = ?self.means.cpus, "what the host may promise has changed");
        self.rebuild(now);
    }

    /// Enters everything anew, under the configuration and on the host as they are. What does not fit,
    /// or is beyond its user's quota, is to be given back, the newest first.
    pub(super) fn rebuild(&mut self, now: Instant) {
        let mut books = match self.empty_books() {
            Ok(books) => books,
            Err(denied) => {
                // What was set aside for channels when the broker started is theirs all the same.
                warn!(%denied, "the host has no room for the channels' threads any more");
                Books::new(host_of(&self.config, &self.options, &self.means), self.means.order)
            }
        };
        let until = now + self.config.choose;
        let mut over = Vec::new();
        // First, because they are there whatever is decided.
        for (id, record) in &self.remnants {
            if let Ok(Want { what: What::Reservation(had), .. }) =
                Want::try_from(record.want.clone())
            {
                let asker = self.asker(record.uid, &record.gids);
                books.remains(*id, &asker, had, remnant(had), now);
            }
        }
        for (id, live) in &mut self.grants {
            let asker = crate::books::Asker {
                uid: live.record.uid,
                quota: self.config.quotas.of(live.record.uid, &live.record.gids),
            };
            match books.admit(*id, &asker, &live.want.what, now) {
                Ok(cpu) => live.cpu = cpu,
                Err(denied) => {
                    // The number of its CPU may be another's by now.
                    live.cpu = None;
                    over.push((*id, asker, denied));
                }
            }
        }
        self.books = books;
        if let Err(denied) = self.channels_run_below() {
            warn!(%denied, "channels may be late");
        }
        let known = std::mem::take(&mut self.over);
        for (id, asker, denied) in over {
            let Some(live) = self.grants.get(&id) else { continue };
            let must_free_ppm = live.want.what.share_ppm();
            warn!(%id, uid = asker.uid, why = %denied, "no room any more");
            let offers = self.offers(id, &asker, &live.want);
            // Who was told before has no more time than then.
            let until = known.get(&id).copied().unwrap_or(until);
            self.over.insert(id, until);
            let within_ms = until.saturating_since(now).as_nanos() / 1_000_000;
            let must_free_ppm = denied.short_ppm.unwrap_or(must_free_ppm);
            self.tell_holder(id, &Event::Choose { must_free_ppm, within_ms, offers });
        }
        self.pin_again();
    }

    /// Whoever was moved to another CPU in the books is moved by the kernel.
    fn pin_again(&mut self) {
        let mut lost = Vec::new();
        for (id, live) in &self.grants {
            let Some(held) = self.held.get(&live.record.process) else { continue };
            let moved = live.cpu.is_some() && !self.over.contains_key(id);
            if moved
                && self
                    .means
                    .give(
                        &held.peer.process,
                        live.record.uid,
                        &live.want,
                        live.record.thread_start,
                        live.cpu,
                    )
                    .is_err()
            {
                lost.push(*id);
            }
        }
        for id in lost {
            self.revoke(id, "it cannot be moved to the CPU where there is room for it");
        }
    }

    /// Takes back what was not given back in time.
    pub(super) fn revoke_what_is_over(&mut self, now: Instant) {
        let late: Vec<GrantId> =
            self.over.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.revoke(id, "the host has no room for it any more");
        }
    }
}

fn longest(want: &Want) -> Duration {
    match &want.what {
        What::Upcalls(upcalls) => {
            upcalls.iter().map(punctual_model::Upcall::period).max().unwrap_or(Duration::ZERO)
        }
        What::Reservation(reservation) => reservation.period(),
        What::Priority { .. } => Duration::ZERO,
    }
}
