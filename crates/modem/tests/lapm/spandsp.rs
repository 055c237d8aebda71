//! Our LAPM and SpanDSP's (0.0.6): two independent implementations of V.42, bit by bit, in both
//! roles.

#![allow(unsafe_code, reason = "the other maker's is C")]

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use punctual_model::{Duration, Instant};
use punctual_modem::lapm::{Outcome, Parameters, Session, Start};
use punctual_modem::modem::Role;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Stream;

type GetMessage = extern "C" fn(*mut c_void, *mut u8, c_int) -> c_int;
type PutMessage = extern "C" fn(*mut c_void, *const u8, c_int);

// `v42.h`. The library itself is linked by the crate under test.
unsafe extern "C" {
    fn v42_init(
        state: *mut c_void,
        calling: c_int,
        detect: c_int,
        get: GetMessage,
        put: PutMessage,
        user: *mut c_void,
    ) -> *mut c_void;
    fn v42_restart(state: *mut c_void);
    fn v42_tx_bit(state: *mut c_void) -> c_int;
    fn v42_rx_bit(state: *mut c_void, bit: c_int);
    fn v42_free(state: *mut c_void) -> c_int;
}

/// The data that the callbacks work on.
#[derive(Default)]
struct Terminal {
    to_send: Vec<u8>,
    sent: usize,
    came: Vec<u8>,
}

/// SpanDSP's end.
struct Other {
    state: NonNull<c_void>,
    /// From `Box::into_raw`.
    terminal: NonNull<Terminal>,
}

impl Other {
    fn new(calling: bool, detect: bool, to_send: Vec<u8>) -> Self {
        let terminal = Box::new(Terminal { to_send, ..Terminal::default() });
        let terminal = NonNull::from(Box::leak(terminal));
        let user = terminal.as_ptr().cast();
        let (calling, detect) = (c_int::from(calling), c_int::from(detect));
        // SAFETY: a null state asks the library to allocate one. `user` points to a live `Terminal`
        // until `Drop`, after the state is freed, and both callbacks take exactly that.
        let state =
            unsafe { v42_init(ptr::null_mut(), calling, detect, get_message, put_message, user) };
        let state = NonNull::new(state).expect("memory");
        // SAFETY: the state is live and ours alone.
        unsafe { v42_restart(state.as_ptr()) };
        Self { state, terminal }
    }

    fn next_bit(&mut self) -> bool {
        // SAFETY: the state is live and ours alone (`&mut self`).
        unsafe { v42_tx_bit(self.state.as_ptr()) & 1 == 1 }
    }

    fn put_bit(&mut self, bit: bool) {
        // SAFETY: the state is live and ours alone (`&mut self`).
        unsafe { v42_rx_bit(self.state.as_ptr(), c_int::from(bit)) };
    }

    fn terminal(&self) -> &Terminal {
        // SAFETY: live until `Drop`. Only callbacks touch it otherwise, and they run under `&mut
        // self`.
        unsafe { self.terminal.as_ref() }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // SAFETY: the state came from `v42_init` and is freed once; after it no other pointer to
        // the terminal, which came from a `Box`, is left.
        unsafe {
            v42_free(self.state.as_ptr());
            drop(Box::from_raw(self.terminal.as_ptr()));
        }
    }
}

extern "C" fn get_message(user: *mut c_void, message: *mut u8, room: c_int) -> c_int {
    // SAFETY: `user` is the live `Terminal` given to `v42_init`; we are inside a call with
    // `&mut Other`, so no other reference to it exists.
    let terminal = unsafe { &mut *user.cast::<Terminal>() };
    let rest = &terminal.to_send[terminal.sent..];
    let count = rest.len().min(usize::try_from(room).unwrap_or(0));
    // SAFETY: the library provides room for `room` bytes, which do not overlap ours.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), message, count) };
    terminal.sent += count;
    count as c_int
}

extern "C" fn put_message(user: *mut c_void, message: *const u8, length: c_int) {
    let Ok(length) = usize::try_from(length) else { return };
    if message.is_null() {
        // A report in place of a message.
        return;
    }
    // SAFETY: as in `get_message`; the library passes `length` bytes.
    let (terminal, message) =
        unsafe { (&mut *user.cast::<Terminal>(), core::slice::from_raw_parts(message, length)) };
    terminal.came.extend_from_slice(message);
}

const BIT: Duration = Duration::from_nanos(1_000_000_000 / 2_400);

/// Runs both ends, with bytes for each other, at 2400 bit/s; `wrong` bits in a million are
/// inverted.
fn meet(role: Role, detect: bool, negotiate: bool, wrong: u32, seed: u64) -> (Session, String) {
    let context = format!("ours {role:?}, detect {detect}, negotiate {negotiate}, seed {seed}");
    let mut now = Instant::from_nanos(1);
    let start = if detect { Start::Detect { t400: Duration::from_secs(3) } } else { Start::Direct };
    let parameters = Parameters { negotiate, ..Parameters::for_rate(2_400) };
    let mut ours = Session::new(now, role, parameters, start);
    let (mut from_us, mut from_them) =
        (Stream::new(2 * seed, 3_000), Stream::new(2 * seed + 1, 3_000));
    let mut theirs = Other::new(role == Role::Answering, detect, from_them.bytes.clone());
    from_them.written = from_them.bytes.len();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut noise = |bit: bool| bit ^ (rng.next_u32() % 1_000_000 < wrong);
    // Twelve seconds without errors; SpanDSP's timeouts are ten times ours.
    for _ in 0..2_400 * 400 {
        let (to_them, to_us) = (ours.next_bit(now), theirs.next_bit());
        theirs.put_bit(noise(to_them));
        ours.put_bit(now, noise(to_us));
        from_us.written += ours.write(from_us.rest());
        let mut room = [0; 64];
        let count = ours.read(&mut room);
        from_them.came(&room[..count], &context);
        let came = &theirs.terminal().came[from_us.arrived..];
        from_us.came(came, &context);
        now += BIT;
        if from_us.is_complete() && from_them.is_complete() && ours.unacknowledged() == 0 {
            return (ours, context);
        }
    }
    panic!(
        "{context}: {:?}, {} and {} of 3000 bytes, {:?}",
        ours.outcome(),
        from_us.arrived,
        from_them.arrived,
        ours.link_stats()
    );
}

#[test]
fn another_makers_v42_understands_ours_and_ours_understands_it() {
    for role in [Role::Calling, Role::Answering] {
        for detect in [false, true] {
            for negotiate in [false, true] {
                let (ours, context) = meet(role, detect, negotiate, 0, 1);
                assert_eq!(ours.outcome(), Outcome::Corrected, "{context}");
                let stats = ours.link_stats().expect("a link");
                assert_eq!((stats.frames_repeated, stats.not_understood), (0, 0), "{context}");
                assert_eq!(ours.deframer_stats().bad, 0, "{context}");
            }
        }
    }
}

/// One bit in 33,000 is wrong, and so about one frame in thirty: implementations differ most in how
/// a link recovers. With more errors SpanDSP's timeouts, ten times ours at this rate, take minutes.
#[test]
fn frames_lost_between_two_makers_are_sent_again() {
    let (mut repeated, mut out_of_order) = (0, 0);
    for role in [Role::Calling, Role::Answering] {
        for seed in 0..6 {
            let (ours, _) = meet(role, false, true, 30, seed);
            let stats = ours.link_stats().expect("a link");
            repeated += stats.frames_repeated;
            out_of_order += stats.out_of_order;
        }
    }
    assert!(repeated > 10 && out_of_order > 10, "{repeated} by us, {out_of_order} by them");
}
