//! The exit states and the usage of programs, taken when the first process of each has ended.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use punctual_linux::cgroup::memory::{Kept, MemoryUse};
use punctual_linux::clock;
use punctual_linux::process::Usage;
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::units::Bytes;
use punctual_model::{Duration, Service};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::grant::GrantWatch;
use super::start::Running;
use super::terms::{Terms, serialize_terms};

/// The base of a shell's exit code for a program that a signal killed (POSIX, Shell Command
/// Language, 2.8.2).
const KILLED_BY: i32 = 128;

/// The results of programs that ran together.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Outcome {
    /// Always true: a program that is refused does not run.
    pub admitted: bool,
    /// Each program, in the order of the contract.
    pub commands: Vec<Ran>,
    /// Names the entries of the contract that were counted in admission and that no program holds
    /// here, if there are any.
    pub only_admitted: Option<String>,
    /// The CPUs that were kept from halting.
    pub awake_cpus: Vec<usize>,
}

impl Outcome {
    /// Returns the result of the first program, for a run of one.
    pub fn alone(&self) -> Option<Alone<'_>> {
        let ran = self.commands.first()?;
        Some(Alone { ran, awake_cpus: &self.awake_cpus })
    }

    /// Returns 0 if all programs ended with 0, or else the first other code, in the order of the
    /// contract.
    pub fn code(&self) -> u8 {
        self.commands.iter().map(|ran| ran.used.code()).find(|code| *code != 0).unwrap_or(0)
    }
}

/// The result of one program that was not of a contract. It serialises as `punctual run --json`
/// prints it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Alone<'a> {
    /// The program.
    #[serde(flatten)]
    pub ran: &'a Ran,
    /// The CPUs that were kept from halting; empty if none was to be.
    pub awake_cpus: &'a [usize],
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its exit state and usage.
    pub used: Used,
}

/// The exit state and the usage of a program.
#[derive(Clone, Debug)]
pub struct Used {
    /// The exit state of its first process.
    pub status: ExitStatus,
    /// The usage of its first process and of the children that it waited for.
    pub usage: Usage,
    /// The time from its first instruction to its end.
    pub wall: Duration,
    /// The processor time of all its processes, as far as it is known.
    pub exec_time: Service,
    /// Its usage of the reservation; `None` for an ordinary program.
    pub reserved: Option<Reserved>,
    /// The number of its processes that go on as ordinary ones.
    pub set_free: usize,
}

/// A program's usage of its reservation.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The terms that it ran under.
    pub terms: Terms,
    /// The number of periods that began while it ran. Each offers one budget.
    pub periods: u64,
    /// The sum of the budgets of these periods.
    pub offered: Service,
    /// The processor time within the reservation; `None` if the kernel keeps no account of it.
    pub inside: Option<Service>,
    /// The processor time outside the reservation.
    pub outside: Option<Service>,
    /// The number of timetable slots that it was given.
    pub slots: Option<u64>,
    /// The number of times that the kernel refused to start or stop it. If it is not zero, the
    /// promise is broken.
    pub failures: u64,
    /// The reason that the broker revoked the reservation, if it did.
    pub revoked: Option<String>,
    /// The use of memory, if some is kept for it ([`Terms::memory`]) and it could be read.
    pub memory: Option<MemoryUse>,
}

impl Used {
    /// Takes the figures while the reservation is still in place.
    pub(super) fn of(running: &Running, ended: punctual_linux::process::Ended) -> Self {
        let now = clock::now();
        let held = running.held.as_ref();
        let usage = ended.usage;
        // Each is read once, and the part before the whole: processes that the program left behind
        // may still be running.
        let inside = held.and_then(|held| held.used_inside());
        let account = running.watch.as_ref().and_then(GrantWatch::account);
        let used = held.and_then(|held| held.used()).or(account.map(|account| account.all));
        let exec_time = used.unwrap_or(usage.processor);
        let reserved = running.terms.clone().map(|terms| {
            let (inside, outside) = match (terms.choice.backend, held) {
                // Its group is the broker's, which told it.
                (Backend::Timetable | Backend::Server, None) => {
                    let inside = account.map(|account| account.inside);
                    (inside, used.zip(inside).map(|(used, inside)| used.saturating_sub(inside)))
                }
                (Backend::Kernel, _) => {
                    // Only the first thread is within the reservation.
                    let first = usage.first_thread.unwrap_or(usage.processor);
                    (Some(first), Some(usage.processor.saturating_sub(first)))
                }
                (Backend::Timetable | Backend::Server, Some(_)) => match terms.enforcement {
                    // The program is frozen at all other times.
                    Enforcement::Hard => (used, used.map(|_| Service::ZERO)),
                    Enforcement::Soft => {
                        (inside, used.zip(inside).map(|(used, inside)| used.saturating_sub(inside)))
                    }
                },
            };
            let revoked = running.watch.as_ref().and_then(GrantWatch::revoked).cloned();
            // Nothing was offered after a revocation.
            let until = revoked.as_ref().map_or(now, |(at, _)| *at);
            let (offered, periods) = running.offered(terms.reservation, until);
            Reserved {
                periods,
                offered,
                inside,
                outside,
                slots: held
                    .filter(|_| terms.choice.backend == Backend::Timetable)
                    .map(|held| held.slots()),
                failures: held.map_or(0, |held| held.failures()),
                revoked: revoked.map(|(_, why)| why),
                memory: running.kept.as_ref().and_then(Kept::used),
                terms,
            }
        });
        let set_free = held.map_or(0, |held| held.processes().len());
        let wall = now.saturating_since(running.started);
        Self { status: ended.status, usage, wall, exec_time, reserved, set_free }
    }

    /// Returns the exit code as a shell gives it: the program's own, or 128 plus the number of the
    /// signal that killed it.
    pub fn code(&self) -> u8 {
        let killed = || self.status.signal().map(|signal| KILLED_BY + signal);
        let code = self.status.code().or_else(killed);
        // Linux exit codes are 0 to 255, and signals 1 to 64.
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }
}

impl Reserved {
    /// Returns how many pages were taken, and used again, that should have been kept: none if more
    /// memory was used than that, and what is kept of it is the kernel's choice.
    pub fn taken(&self) -> u64 {
        let (Some(memory), Some(used)) = (self.terms.memory, self.memory) else { return 0 };
        if used.peak.is_none_or(|peak| peak <= memory) { used.refaults } else { 0 }
    }

    /// Returns the share of the offered time that was used, in percent. It can exceed 100, because
    /// a timetable gives at least the reservation.
    pub fn percent(&self) -> Option<f64> {
        self.inside.map(|inside| 100.0 * inside.as_secs_f64() / self.offered.as_secs_f64())
    }
}

/// Keys are never renamed, only added. All keys of the reservation are null for an ordinary
/// program.
impl Serialize for Ran {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, command, used } = self;
        let Used { usage, reserved, .. } = used;
        let reserved = reserved.as_ref();
        let terms = reserved.map(|reserved| &reserved.terms);
        let grant = terms.and_then(|terms| terms.broker.as_ref()?.grant);
        let nanos =
            |of: fn(&Reserved) -> Option<Service>| reserved.and_then(of).map(Service::as_nanos);
        let mut row = serializer.serialize_struct("Ran", 30)?;
        row.serialize_field("name", name)?;
        row.serialize_field("command", command)?;
        serialize_terms(&mut row, terms)?;
        row.serialize_field("grant", &grant)?;
        row.serialize_field("revoked", &reserved.and_then(|reserved| reserved.revoked.as_ref()))?;
        row.serialize_field("wall_ns", &used.wall.as_nanos())?;
        row.serialize_field("exec_time_ns", &used.exec_time.as_nanos())?;
        let first_thread = usage.first_thread.map(Service::as_nanos);
        row.serialize_field("exec_time_of_first_thread_ns", &first_thread)?;
        row.serialize_field("periods", &reserved.map(|reserved| reserved.periods))?;
        row.serialize_field("offered_ns", &nanos(|reserved| Some(reserved.offered)))?;
        row.serialize_field("inside_ns", &nanos(|reserved| reserved.inside))?;
        row.serialize_field("outside_ns", &nanos(|reserved| reserved.outside))?;
        row.serialize_field("used_percent", &reserved.and_then(Reserved::percent))?;
        row.serialize_field("slots", &reserved.and_then(|reserved| reserved.slots))?;
        let memory = reserved.and_then(|reserved| reserved.memory);
        let peak = memory.and_then(|used| used.peak);
        row.serialize_field("memory_peak_bytes", &peak.map(|Bytes(bytes)| bytes))?;
        row.serialize_field("major_faults", &memory.map(|used| used.major_faults))?;
        row.serialize_field("refaults", &memory.map(|used| used.refaults))?;
        row.serialize_field("failures", &reserved.map_or(0, |reserved| reserved.failures))?;
        row.serialize_field("processes_set_free", &used.set_free)?;
        row.serialize_field("voluntary_switches", &usage.voluntary_switches)?;
        row.serialize_field("involuntary_switches", &usage.involuntary_switches)?;
        row.serialize_field("exit_code", &used.status.code())?;
        row.serialize_field("signal", &used.status.signal())?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::Through;
    use super::*;
    use punctual_client::grant::GrantId;
    use punctual_runtime::reservation::Choice;

    fn ran(status: i32, revoked: Option<&str>) -> Ran {
        let grant = revoked.map(|_| Through { path: "/run/x".into(), grant: Some(GrantId(7)) });
        let terms = Terms {
            reservation: "2ms/8ms".parse().expect("valid"),
            enforcement: Enforcement::Soft,
            choice: Choice { backend: Backend::Timetable, because: "of a test".into() },
            cpu: Some(1),
            broker: grant,
            adapt: None,
            memory: Some(Bytes(64 << 20)),
        };
        let usage = Usage {
            first_thread: None,
            processor: Service::from_millis(15),
            voluntary_switches: 3,
            involuntary_switches: 4,
        };
        let reserved = Reserved {
            terms,
            periods: 10,
            offered: Service::from_millis(20),
            inside: Some(Service::from_millis(10)),
            outside: Some(Service::from_millis(5)),
            slots: Some(10),
            failures: 0,
            revoked: revoked.map(str::to_owned),
            memory: Some(MemoryUse { peak: Some(Bytes(60 << 20)), major_faults: 7, refaults: 3 }),
        };
        let used = Used {
            status: ExitStatus::from_raw(status),
            usage,
            wall: Duration::from_millis(80),
            exec_time: Service::from_millis(15),
            reserved: Some(reserved),
            set_free: 2,
        };
        Ran { name: Some("a".into()), command: vec!["x".into()], used }
    }

    fn outcome(statuses: &[i32]) -> Outcome {
        let commands = statuses.iter().map(|&status| ran(status, None)).collect();
        Outcome { admitted: true, commands, only_admitted: None, awake_cpus: Vec::new() }
    }

    #[test]
    fn pages_count_as_taken_within_the_promise_alone() {
        let mut reserved = ran(0, None).used.reserved.expect("one");
        assert_eq!(reserved.taken(), 3);
        reserved.memory.as_mut().expect("one").peak = Some(Bytes(65 << 20));
        assert_eq!(reserved.taken(), 0);
    }

    #[test]
    fn the_first_nonzero_code_is_returned() {
        for (statuses, code) in
            [(&[][..], 0), (&[0, 0], 0), (&[0, 7 << 8, 8 << 8], 7), (&[0, 15], 128 + 15)]
        {
            assert_eq!(outcome(statuses).code(), code);
        }
    }

    #[test]
    fn json_has_the_terms_the_use_and_the_end() {
        let json = serde_json::to_value(outcome(&[7 << 8])).expect("numbers and texts");
        let json = &json["commands"][0];
        assert_eq!((&json["name"], &json["command"][0]), (&"a".into(), &"x".into()));
        assert_eq!((&json["backend"], &json["enforcement"]), (&"timetable".into(), &"soft".into()));
        assert_eq!(
            (&json["inside_ns"], &json["outside_ns"]),
            (&10_000_000.into(), &5_000_000.into())
        );
        assert_eq!((&json["used_percent"], &json["exit_code"]), (&50.0.into(), &7.into()));
        let memory = (&json["memory_bytes"], &json["memory_peak_bytes"]);
        assert_eq!(memory, (&(64 << 20).into(), &(60 << 20).into()));
        assert_eq!((&json["major_faults"], &json["refaults"]), (&7.into(), &3.into()));
        assert!(json["signal"].is_null() && json["grant"].is_null(), "{json}");
    }

    #[test]
    fn json_has_every_key_also_of_an_ordinary_program() {
        let mut ordinary = ran(0, None);
        ordinary.used.reserved = None;
        let keys = |ran: &Ran| {
            let json = serde_json::to_value(ran).expect("numbers and texts");
            json.as_object().expect("an object").keys().cloned().collect::<Vec<_>>()
        };
        let expected = keys(&ran(0, None));
        assert_eq!((keys(&ordinary), expected.len()), (expected, 30));
    }

    #[test]
    fn json_has_the_reason_of_a_revocation() {
        let json = serde_json::to_value(ran(0, Some("overuse"))).expect("numbers and texts");
        assert_eq!((&json["grant"], &json["broker"]), (&7.into(), &"/run/x".into()));
        assert_eq!(json["revoked"], "overuse");
    }
}
