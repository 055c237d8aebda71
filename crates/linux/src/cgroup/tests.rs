use super::freezer::Freezer;
use super::*;
use crate::process;
use punctual_model::time::Instant;
use std::process::{Child, Command};

/// A child that is killed and reaped, however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs tests one at a time: below a group other than the root, version 2 has groups of threads or
/// of processes, not both.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn sleeper() -> (Killed, i32) {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    let child = command.spawn().expect("sh is there");
    let pid = i32::try_from(child.id()).expect("positive");
    (Killed(child), pid)
}

fn cpu_ticks(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("lives");
    let fields: Vec<&str> = text.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

fn eventually(holds: impl Fn() -> bool) -> bool {
    (0..5_000).any(|_| {
        holds() || {
            clock::sleep(Duration::from_millis(1));
            false
        }
    })
}

#[test]
fn a_frozen_process_stands_still_and_goes_on_and_nothing_is_left() {
    let _alone = alone();
    let (_killed, pid) = sleeper();
    let before = Hierarchy::v2().or_else(|| Hierarchy::v1("freezer"));
    let home = before.as_ref().and_then(|hierarchy| hierarchy.group_of(pid));
    let freezer = match Freezer::of_process(pid) {
        Ok(freezer) => freezer,
        Err(refused) => return println!("skipped: {refused}"),
    };
    let path = freezer.group().path().to_owned();
    assert_eq!(freezer.group().members(), [pid]);
    freezer.freeze_and_see().expect("there are freezers");
    let then = cpu_ticks(pid);
    clock::sleep(Duration::from_millis(60));
    assert_eq!(cpu_ticks(pid), then);
    freezer.thaw().expect("as before");
    assert!(eventually(|| cpu_ticks(pid) > then), "it goes on");
    let mut buffer = [0; 3];
    let mut seen = Vec::new();
    freezer.threads().each(&mut buffer, |tid| seen.push(tid.as_raw())).expect("readable");
    assert_eq!(seen, [pid], "with a buffer shorter than the id");
    freezer.freeze().expect("as before");
    drop(freezer);
    assert!(!path.exists());
    assert!(eventually(|| cpu_ticks(pid) > then + 1), "dropping thaws");
    assert_eq!(before.and_then(|hierarchy| hierarchy.group_of(pid)), home);
}

#[test]
fn a_process_is_held_out_of_its_users_reach_and_returns_home() {
    let _alone = alone();
    let Some(v2) = Hierarchy::v2() else { return println!("skipped: no version 2") };
    let (_killed, pid) = sleeper();
    let Some(above) = v2.group_of(pid) else { return println!("skipped: the group is not shown") };
    // As a user manager has it: a group of the user's own with the program in it.
    let home = match Group::make(&above, false) {
        Ok(home) => home,
        Err(refused) => return println!("skipped: {refused}"),
    };
    if let Err(refused) = std::os::unix::fs::chown(home.path(), Some(4_711), None) {
        return println!("skipped: a group of another user: {refused}");
    }
    home.add(pid).expect("root's");
    let freezer = Freezer::out_of_reach(pid, 4_711).expect("there is a group above it");
    assert_eq!(freezer.group().path().parent(), Some(above.as_path()));
    assert_eq!((freezer.group().members(), home.members()), (vec![pid], vec![]));
    freezer.freeze_and_see().expect("there are freezers");
    drop(freezer);
    assert_eq!(home.members(), [pid]);
    // A home that is gone is the user's business: it goes where its group was.
    let freezer = Freezer::out_of_reach(pid, 4_711).expect("there is a group above it");
    let path = freezer.group().path().to_owned();
    home.remove().expect("empty");
    let began = clock::now();
    drop(freezer);
    let took = clock::now().saturating_since(began);
    assert!(!path.exists() && took < Duration::from_secs(1), "{took}");
    assert_eq!(v2.group_of(pid), Some(above));
}

#[test]
fn one_thread_is_frozen_and_its_process_is_not() {
    let _alone = alone();
    let (tell, told) = std::sync::mpsc::channel();
    let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (count, end) = (std::sync::Arc::new(AtomicU32::new(0)), std::sync::Arc::clone(&ends));
    let counter = std::sync::Arc::clone(&count);
    let thread = std::thread::spawn(move || {
        tell.send(crate::thread::current()).expect("the test waits");
        while !end.load(Ordering::Relaxed) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let tid = told.recv().expect("it tells");
    let me = i32::try_from(std::process::id()).expect("positive");
    match Freezer::of_thread(me, tid.as_raw()) {
        Err(refused) => println!("skipped: {refused}"),
        Ok(freezer) => {
            assert_eq!(freezer.group().members(), [tid.as_raw()]);
            freezer.freeze_and_see().expect("there are freezers");
            let then = count.load(Ordering::Relaxed);
            clock::sleep(Duration::from_millis(30));
            assert_eq!(count.load(Ordering::Relaxed), then);
        }
    }
    let then = count.load(Ordering::Relaxed);
    assert!(eventually(|| count.load(Ordering::Relaxed) != then));
    ends.store(true, Ordering::Relaxed);
    thread.join().expect("no panic");
}

#[test]
fn the_guard_restores_the_group_that_its_process_left() {
    let _alone = alone();
    let (_killed, pid) = sleeper();
    let freezer = match Freezer::of_process(pid) {
        Ok(freezer) => freezer,
        Err(refused) => return println!("skipped: {refused}"),
    };
    let path = freezer.group().path().to_owned();
    let guard = process::Guard::start().expect("forks");
    guard.watch(&path, freezer.is_v1(), false).expect("room");
    freezer.freeze_and_see().expect("there are freezers");
    let tid = Tid::from_raw(pid).expect("positive");
    let raised = process::raise(tid, 1).is_ok();
    process::pin(tid, &[crate::thread::affinity()[0]]).expect("our own child");
    // As if this process ended without cleaning up.
    std::mem::forget(freezer);
    drop(guard);
    assert!(eventually(|| !path.exists()), "the group is gone");
    let class = crate::sched::get(tid).expect("lives").class();
    assert_eq!(class, Some(crate::sched::Class::Other { nice: 0 }), "raised: {raised}");
    assert_eq!(crate::thread::affinity_of(tid), crate::thread::affinity());
    let then = cpu_ticks(pid);
    assert!(eventually(|| cpu_ticks(pid) > then), "it runs");
}

#[test]
fn the_guard_thaws_the_group_when_the_dispatcher_is_overdue() {
    let _alone = alone();
    let (_killed, pid) = sleeper();
    let freezer = match Freezer::of_process(pid) {
        Ok(freezer) => freezer,
        Err(refused) => return println!("skipped: {refused}"),
    };
    let guard = process::Guard::start().expect("forks");
    let place = guard.watch(freezer.group().path(), freezer.is_v1(), false).expect("room");
    freezer.freeze_and_see().expect("there are freezers");
    assert_eq!(guard.acted(), 0);
    guard.due(0, Instant::from_nanos(1));
    let then = cpu_ticks(pid);
    assert!(eventually(|| cpu_ticks(pid) > then), "thawed by the guard");
    assert!(eventually(|| guard.acted() > 0), "and it says so");
    assert_eq!(freezer.group().members(), [pid], "and still in the group");
    guard.forget(place);
}

#[test]
fn a_group_whose_owner_is_dead_is_swept() {
    let Some(hierarchy) = Hierarchy::v2() else { return println!("skipped: no version 2") };
    let me = i32::try_from(std::process::id()).expect("positive");
    let parent = hierarchy.group_of(me).expect("shown");
    // No process has this id: it is above the largest (PID_MAX_LIMIT).
    let stale = parent.join(format!("{PREFIX}4194305-1-0"));
    if let Err(refused) = fs::create_dir(&stale) {
        return println!("skipped: {refused}");
    }
    let own = Group::make(&parent, false).expect("as before");
    assert!(sweep(&parent, false, |_| {}) >= 1 || !stale.exists());
    assert!(!stale.exists() && own.path().exists());
}
