use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;

use crate::memory::LOCKED_BY_A_TEST;

use super::*;

const BYTES: usize = 8192;

fn copy(memory: &OwnedFd) -> OwnedFd {
    memory.try_clone().expect("a descriptor")
}

/// Makes memory as a peer might.
fn raw(flags: MemfdFlags, bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = rustix::fs::memfd_create("peer", flags).expect("memfd_create");
    rustix::fs::ftruncate(&file, bytes).expect("ftruncate");
    if !seals.is_empty() {
        rustix::fs::fcntl_add_seals(&file, seals).expect("sealing");
    }
    file
}

#[test]
fn a_write_on_one_side_is_read_on_the_other() {
    let (ours, file) = Writable::create("test", BYTES, Others::Write).expect("memory");
    let theirs = Writable::of(copy(&file), BYTES).expect("ours to write");
    // Without any descriptor all of it is there.
    let seen = Readable::of(file, BYTES).expect("to read");
    assert_eq!((ours.words().len(), seen.count()), (BYTES / 8, BYTES / 8));
    ours.words()[3].store(7, Ordering::Relaxed);
    theirs.words()[4].store(8, Ordering::Relaxed);
    let mut words = [0; 3];
    seen.load_all(3, &mut words);
    assert_eq!((seen.load(3), words), (7, [7, 8, 0]));
    assert_eq!(seen.address(4) as usize - seen.address(0) as usize, 32);
}

#[test]
fn its_size_and_its_seals_cannot_be_changed() {
    for others in [Others::Read, Others::Write] {
        let (_ours, theirs) = Writable::create("test", BYTES, others).expect("memory");
        for bytes in [0, 4096, 2 * BYTES as u64] {
            assert_eq!(rustix::fs::ftruncate(&theirs, bytes), Err(Errno::PERM));
        }
        for seals in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
            assert_eq!(rustix::fs::fcntl_add_seals(&theirs, seals), Err(Errno::PERM));
        }
    }
}

#[test]
fn memory_for_reading_cannot_be_written() {
    let (ours, theirs) = Writable::create("test", BYTES, Others::Read).expect("memory");
    assert_eq!(Writable::of(copy(&theirs), BYTES).err(), Some(MemfdError::ReadOnly));
    assert!(mapped(&theirs, BYTES, true).is_err(), "the kernel refuses too");
    // Opening it again gives no right to write.
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", theirs.as_raw_fd());
    let again = File::options().read(true).write(true).open(path).expect("ours");
    assert!(mapped(&again.into(), BYTES, true).is_err());
    assert_eq!(rustix::io::write(&theirs, b"x"), Err(Errno::PERM));
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(&theirs, hole, 0, 4096), Err(Errno::PERM));
    // Its maker can still write.
    ours.words()[0].store(1, Ordering::Relaxed);
    assert_eq!(Readable::of(theirs, BYTES).expect("to read").load(0), 1);
}

#[test]
fn memory_that_could_hurt_its_reader_is_refused() {
    let all = SEALED | SealFlags::SEAL;
    let sealing = MemfdFlags::ALLOW_SEALING;
    let bytes = BYTES as u64;
    let refused = |file: OwnedFd| {
        let copy = file.try_clone().expect("a descriptor");
        let error = Readable::of(file, BYTES).expect_err("refused");
        assert_eq!(Writable::of(copy, BYTES).expect_err("refused"), error);
        assert!(error.to_string().len() > 40, "{error}");
        error
    };
    for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::GROW] {
        assert_eq!(refused(raw(sealing, bytes, seals)), MemfdError::NotSealed { seals });
    }
    let unsealable = refused(raw(MemfdFlags::empty(), bytes, SealFlags::empty()));
    assert_eq!(unsealable, MemfdError::NotSealed { seals: SealFlags::SEAL });
    for bytes in [0, bytes / 2, 2 * bytes] {
        let error = refused(raw(sealing, bytes, all));
        assert_eq!(error, MemfdError::OtherSize { bytes, expected: BYTES });
    }
    let file = tempfile::tempfile().expect("a file");
    file.set_len(bytes).expect("longer");
    // If /tmp is in memory, its files have seals and can get no more.
    let in_memory = rustix::fs::fcntl_get_seals(&file).is_ok();
    let expected = if in_memory {
        MemfdError::NotSealed { seals: SealFlags::SEAL }
    } else {
        MemfdError::NotMemory
    };
    assert_eq!(refused(file.into()), expected);
    assert_eq!(
        refused(File::open("/dev/zero").expect("always there").into()),
        MemfdError::NotMemory
    );
    // A file of huge pages; at length zero it needs none.
    match rustix::fs::memfd_create("huge", sealing | MemfdFlags::HUGETLB) {
        Ok(file) => assert_eq!(refused(file), MemfdError::NotMemory),
        Err(errno) => println!("skipped: no huge pages here: {errno}"),
    }
    for bytes in [0, 4095, 4097] {
        let error = Writable::create("test", bytes, Others::Read).expect_err("not pages");
        assert!(matches!(error, MemfdError::NotPages { .. }), "{error}");
    }
}

#[test]
fn a_descriptor_for_reading_does_not_do_for_writing() {
    let _pages_come_when_touched = LOCKED_BY_A_TEST.read().unwrap_or_else(PoisonError::into_inner);
    use std::os::fd::AsRawFd as _;
    let (_, memory) = Writable::create("test", BYTES, Others::Write).expect("memory");
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let theirs = File::open(path).expect("ours");
    assert_eq!(Writable::of(theirs.into(), BYTES).err(), Some(MemfdError::ReadOnly));
}

const HOLE: rustix::fs::FallocateFlags =
    rustix::fs::FallocateFlags::PUNCH_HOLE.union(rustix::fs::FallocateFlags::KEEP_SIZE);

/// Returns the number of pages of the file that are in place.
fn pages(file: &OwnedFd) -> i64 {
    // In units of 512 bytes (stat(3type)).
    rustix::fs::fstat(file).expect("ours").st_blocks / 8
}

/// After sealing, the writer can only write.
#[test]
fn a_borrower_of_memory_cannot_take_it_back() {
    let _pages_come_when_touched = LOCKED_BY_A_TEST.read().unwrap_or_else(PoisonError::into_inner);
    let (lent, file) = lend("test", BYTES).expect("memory");
    let theirs = Writable::of(copy(&file), BYTES).expect("it is theirs to write");
    seal(&file).expect("ours");
    seal(&file).expect("again is no error");
    let seen = lent.freeze(&file).expect("sealed");
    assert_eq!(rustix::fs::fallocate(&file, HOLE, 0, 4096), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
    assert!(mapped(&file, BYTES, true).is_err(), "a new mapping for writing");
    // Through the writer's own mapping (madvise(2), MADV_REMOVE).
    let at = theirs.words().as_ptr().cast_mut().cast();
    // SAFETY: the kernel refuses; if it did not, the zeroes read below would fail the test.
    let removed = unsafe { rustix::mm::madvise(at, 4096, rustix::mm::Advice::LinuxRemove) };
    assert_eq!(removed, Err(Errno::PERM));
    theirs.words()[3].store(7, Ordering::Relaxed);
    assert_eq!(seen.load(3), 7);
}

#[test]
fn memory_that_is_not_sealed_is_not_read() {
    let _pages_come_when_touched = LOCKED_BY_A_TEST.read().unwrap_or_else(PoisonError::into_inner);
    let (lent, file) = lend("test", BYTES).expect("memory");
    let refused = lent.freeze(&file).expect_err("it is not sealed");
    assert!(matches!(refused, MemfdError::NotFrozen { .. }), "{refused}");
    // A writer that sets a seal of its own first prevents the right ones.
    let (lent, file) = lend("test", BYTES).expect("memory");
    rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL).expect("nothing forbids it");
    seal(&file).expect("found out below");
    assert!(matches!(lent.freeze(&file), Err(MemfdError::NotFrozen { .. })));
}

/// A page punched out between mapping and sealing is in place again, with zeroes, before it is
/// read.
#[test]
fn holes_are_filled_before_memory_is_read() {
    let _pages_come_when_touched = LOCKED_BY_A_TEST.read().unwrap_or_else(PoisonError::into_inner);
    let (lent, file) = lend("test", 4 * BYTES).expect("memory");
    assert_eq!(pages(&file), 0);
    let theirs = Writable::of(copy(&file), 4 * BYTES).expect("it is theirs to write");
    assert_eq!(pages(&file), 8);
    for word in theirs.words() {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    rustix::fs::fallocate(&file, HOLE, 4096, 3 * 4096).expect("not sealed yet");
    assert_eq!(pages(&file), 5);
    seal(&file).expect("ours");
    let seen = lent.freeze(&file).expect("sealed");
    assert_eq!(pages(&file), 8);
    assert_eq!((seen.load(0), seen.load(512), seen.load(4 * 512)), (u64::MAX, 0, u64::MAX));
}

/// No seal forbids it to a process that has the memory mapped, even only for reading (Linux 6.1).
#[test]
fn pages_that_are_held_are_not_replaced() {
    let memory = |bytes| {
        let (lent, file) = lend("test", bytes).expect("memory");
        let theirs = Writable::of(copy(&file), bytes).expect("it is theirs to write");
        seal(&file).expect("ours");
        (lent.freeze(&file).expect("sealed"), file, theirs)
    };
    // Less and more than a run, and more runs than a pipe has buffers for at first.
    for bytes in [4_096, 65_536, (2 << 20) + 4_096, 40 << 20] {
        let (other, file, _theirs) = memory(bytes);
        let (mut own, own_file) = Writable::create("test", 4_096, Others::Read).expect("memory");
        own.hold(&other).expect("pipes");
        let last = (bytes as u64 - 1) & !((2 << 20) - 1);
        for (file, from) in [(&file, 0), (&file, last), (&own_file, 0)] {
            assert_ne!(pins::collapses(file, from), Some(true), "{bytes} from {from}");
        }
        let before = minor_faults();
        (0..other.count()).step_by(512).for_each(|word| assert_eq!(other.load(word), 0));
        let faults = minor_faults() - before;
        assert!(faults < 8, "{faults} at {bytes}");
        drop(own);
        println!("{bytes} bytes that nobody holds: {:?}", pins::collapses(&file, last));
    }
    assert_ne!(can_be_collapsed(), Some(true));
}

/// Returns the minor faults of this thread.
fn minor_faults() -> i64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("always there");
    // The tenth field; the second may have spaces (proc_pid_stat(5)).
    let (_, after) = stat.rsplit_once(") ").expect("a name");
    after.split(' ').nth(7).and_then(|faults| faults.parse().ok()).expect("a number")
}

#[test]
fn memory_is_present_as_long_as_any_process_has_it_in_any_way() {
    use std::os::fd::{AsFd as _, AsRawFd as _};

    let mut presence = Presence::new().expect("inotify");
    let (lent, file) = lend("test", BYTES).expect("memory");
    let (other, other_file) = Writable::create("test", BYTES, Others::Read).expect("memory");
    let watched = presence.watch(&file).expect("watched");
    let other_watched = presence.watch(&other_file).expect("watched");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let by_path = rustix::fs::open(path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    let (from, to) = std::os::unix::net::UnixStream::pair().expect("sockets");
    crate::pass::send(&from, b"x", &[file.as_fd()]).expect("room");
    let mapped = Writable::of(file, BYTES).expect("it is theirs to write");
    drop((lent, other));
    assert_eq!(presence.gone(), []);
    drop(other_file);
    assert_eq!(presence.gone(), [other_watched]);
    drop(mapped);
    assert_eq!(presence.gone(), []);
    drop(by_path.expect("a descriptor"));
    assert_eq!(presence.gone(), [], "it lies in a socket");
    drop(to);
    assert_eq!(presence.gone(), [watched]);
    assert_eq!(presence.gone(), []);
}

/// If the kernel's queue overflows between two calls, what is gone is found all the same.
#[test]
fn memory_that_is_gone_is_found_after_the_queue_overflowed() {
    let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events");
    let most: u64 = most.expect("readable").trim().parse().expect("a number");
    let mut presence = Presence::new().expect("inotify");
    let (_mapped, kept) = Writable::create("test", 4_096, Others::Read).expect("memory");
    let kept = presence.watch(&kept).expect("watched");
    // Each causes two events.
    let count = most / 2 + 10;
    for done in 0..count {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memory");
        if let Err(why) = presence.watch(&file) {
            return println!("skipped: after {done} watches: {why}");
        }
    }
    let gone = presence.gone();
    assert_eq!(gone.len() as u64, count);
    assert!(!gone.contains(&kept));
}
