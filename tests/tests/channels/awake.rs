//! A broker that keeps CPUs from entering idle states.

use std::fs;
use std::path::Path;

use punctual_linux::awake::Below;
use punctual_linux::sched;
use punctual_linux::thread::{self, Tid};
use punctual_model::channel::Framing;
use system_tests::live;

use crate::host::{Broker, CONFIG, alone, listener, number_of, numbered, open_sending, to};

/// Returns the threads of the process `pid` that keep CPUs from idling.
fn spinners(pid: u32) -> Vec<Tid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let spins = |path: &Path| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("awake/"))
    };
    let paths = threads.flatten().map(|thread| thread.path()).filter(|path| spins(path));
    paths.filter_map(|path| Tid::from_raw(path.file_name()?.to_str()?.parse().ok()?)).collect()
}

/// Returns the group of the `cpu` controller of each thread.
fn groups_of(spinners: &[Tid]) -> Vec<String> {
    let group = |tid: &Tid| {
        let lines = fs::read_to_string(format!("/proc/{tid}/cgroup")).expect("it lives");
        let of_cpu = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "cpu").then(|| path.to_owned())
        };
        lines.lines().find_map(of_cpu).expect("the controller is there")
    };
    spinners.iter().map(group).collect()
}

/// Removes the group that an unprivileged broker had to leave, however the test ends.
struct Swept;

impl Drop for Swept {
    fn drop(&mut self) {
        drop(Below::make());
    }
}

#[test]
fn a_live_broker_keeps_cpus_awake_and_carries_messages() {
    let Some(_alone) = alone() else { return };
    let swept = Swept;
    let mut broker = Broker::start(&CONFIG.replace("[channels]", "[channels]\nawake = true"));
    let pid = broker.pid();
    let spin = spinners(pid);
    let mut cpus: Vec<usize> = spin.iter().flat_map(|tid| thread::affinity_of(*tid)).collect();
    cpus.sort_unstable();
    assert_eq!((cpus, spin.len()), (thread::affinity(), thread::affinity().len()));
    for tid in &spin {
        assert_eq!(sched::get(*tid).expect("it lives").policy_name(), "SCHED_IDLE");
    }

    let mut group = None;
    if let Some(below) = Below::make() {
        group = groups_of(&spin).first().map(|name| below.path().with_file_name(&name[1..]));
        let (groups, name) = (groups_of(&spin), format!("/punctual-{pid}-"));
        assert!(groups.iter().all(|group| group.starts_with(&name)), "{groups:?}");
    } else {
        println!("not seen: an idle group, which takes version 1 of control groups");
    }

    let mut connection = broker.connect();
    let (socket, address) = listener();
    let (granted, mut sending) =
        open_sending(&mut connection, &to(address, 1_000, 1_000, Framing::Datagram));
    let mut buffer = [0; 2_000];
    for number in 0..50 {
        sending.send(&numbered(number, 500)).expect("a server");
        let bytes = socket.recv(&mut buffer).expect("sent");
        assert_eq!((number_of(&buffer[..bytes]), bytes), (number, 500));
    }
    let seen = || broker.channel(&granted).counts.expect("attached");
    assert!(live::eventually(|| seen().done == 50), "{:?}", seen());
    assert_eq!(spinners(pid), spin);

    broker.end();
    for tid in spin {
        let is_gone = || !Path::new(&format!("/proc/{tid}")).exists();
        assert!(live::eventually(is_gone), "{tid} still spins");
    }
    drop(swept);
    assert!(group.is_none_or(|group| !group.exists()));
}

#[test]
fn no_thread_spins_by_default() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    assert_eq!(spinners(broker.pid()), []);
}
