#![allow(unsafe_code)]
use super::*;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("table");
    (directory, path)
}

#[test]
fn places_differ_come_back_and_the_last_one_removes_the_file() {
    let (_directory, path) = scratch();
    let first = Shared::join(&path, 4, 3).expect("the first");
    let second = Shared::join(&path, 4, 3).expect("the second");
    assert_eq!((first.place(), second.place()), (0, 1));
    first.words()[3].store(7, Ordering::Relaxed);
    assert_eq!(second.words()[3].load(Ordering::Relaxed), 7);
    drop(first);
    assert!(path.exists());
    let third = Shared::join(&path, 4, 3).expect("there is room");
    assert_eq!(third.place(), 0, "the place of the one that left");
    drop((second, third));
    assert!(!path.exists());
}

#[test]
fn a_full_file_is_refused_as_full() {
    let (_directory, path) = scratch();
    let all = [(); 3].map(|()| Shared::join(&path, 1, 3).expect("room"));
    let refused = Shared::join(&path, 1, 3).expect_err("no room");
    assert!(matches!(refused, ShmError::Full { places: 3, .. }), "{refused}");
    drop(all);
    assert!(!path.exists());
    Shared::join(&path, 1, 3).expect("room again");
}

#[test]
fn many_come_and_go_at_once_and_leave_nothing() {
    let (_directory, path) = scratch();
    let comes_and_goes = || {
        for _ in 0..300 {
            let shared = Shared::join(&path, 2, 64).expect("room");
            let before = shared.words()[0].fetch_add(1, Ordering::AcqRel);
            assert!(before < 10_000, "not another file's");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(comes_and_goes);
        }
    });
    assert!(!path.exists());
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let (directory, path) = scratch();
    let refused = Shared::join(&directory.path().join("none/table"), 1, 1).expect_err("absent");
    assert!(matches!(refused, ShmError::Unusable { .. }), "{refused}");

    fs::write(&path, "short").expect("writes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    let refused = Shared::join(&path, 1, 1).expect_err("another size");
    assert!(matches!(refused, ShmError::OtherSize { size: 5, expected: 8, .. }), "{refused}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).expect("ours");
    let refused = Shared::join(&path, 1, 1).expect_err("others write");
    assert!(matches!(refused, ShmError::NotOurs { .. }), "{refused}");

    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("links");
    let refused = Shared::join(&link, 1, 1).expect_err("a link");
    assert!(matches!(refused, ShmError::NotOurs { .. }), "{refused}");
    assert!(refused.to_string().contains("link"), "{refused}");
}

#[test]
fn a_place_is_vacant_once_its_holder_is_gone() {
    let (_directory, path) = scratch();
    let [ours, other] = [(); 2].map(|()| Shared::join(&path, 1, 4).expect("room"));
    assert!(ours.is_taken(1) && !ours.is_taken(2));
    assert!(!ours.is_taken(0) && !ours.if_vacant(0, || panic!("it is ours")));
    assert!(!ours.if_vacant(1, || panic!("it is another's")));
    drop(other);
    assert!(!ours.is_taken(1));
    let mut vacated = false;
    assert!(ours.if_vacant(1, || vacated = true));
    assert!(vacated);
    assert_eq!(Shared::join(&path, 1, 4).expect("room").place(), 1, "it was only looked at");
}

#[test]
fn an_unused_file_is_found_and_removed_and_no_other() {
    let path = path(&format!("test-{}", std::process::id()));
    let shared = Shared::join(&path, 2, 3).expect("room");
    assert!(!left_over().contains(&path), "it is in use");
    assert!(!remove_left_over(&path).expect("readable"));
    assert!(path.exists());
    drop(shared);
    assert!(!remove_left_over(&path).expect("not there"));
    // As a killed process leaves it.
    fs::write(&path, [0; 16]).expect("ours");
    assert!(left_over().contains(&path));
    assert!(remove_left_over(&path).expect("ours"));
    assert!(!path.exists());
}

/// Runs `child` in a child made by fork(2) and `meanwhile` in the parent, then ends the child.
fn with_forked(child: impl FnOnce(), meanwhile: impl FnOnce()) {
    // SAFETY: the child makes only system calls (`child` must neither allocate nor lock), and a
    // signal ends it before it runs any of the parent's code.
    match unsafe { libc::fork() } {
        -1 => panic!("no child: {}", io::Error::last_os_error()),
        0 => {
            child();
            loop {
                // SAFETY: pause(2) takes no memory; it waits for the signal that ends the child.
                unsafe { libc::pause() };
            }
        }
        pid => {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            // SAFETY: `pid` is our own child, and no other thread waits for it.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

#[test]
fn a_forked_child_keeps_the_place_and_never_gives_it_back_itself() {
    let (_directory, path) = scratch();
    let ours = Shared::join(&path, 1, 4).expect("room");
    let other = Shared::join(&path, 1, 4).expect("room");
    let word = &ours.words()[0];
    with_forked(
        || {
            // Drops a copy of the owner, as unwinding would.
            // SAFETY: the child has its own copy of the memory and never uses this value again.
            drop(unsafe { std::ptr::read(&raw const other) });
            word.store(1, Ordering::Release);
        },
        || {
            let until = clock::now() + Duration::from_secs(10);
            while word.load(Ordering::Acquire) == 0 {
                assert!(clock::now() < until, "the child says that it is done");
                std::thread::yield_now();
            }
            assert!(ours.is_taken(1), "it is the parent's");
        },
    );
    drop((ours, other));
    assert!(!path.exists());
}
