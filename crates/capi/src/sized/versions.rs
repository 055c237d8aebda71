//! Tests that each structure is accepted as a program made for the first version passes it.

use super::{LONGEST, Record, can_write, read, write};
use crate::answers::*;
use crate::channels::*;
use crate::programs::*;
use crate::reservations::*;
use crate::upcalls::*;

/// Checks one structure. The first version's size is given as a number, so that neither an appended
/// member nor a change of `FIRST` can alter what old programs pass.
fn check<T: Record>(first: usize) {
    assert_eq!(T::FIRST, first, "{}", T::NAME);
    assert!(size_of::<T>() >= first && align_of::<T>() <= align_of::<u64>(), "{}", T::NAME);
    const USED: u64 = u64::from_ne_bytes([0xa5; 8]);
    let mut memory = [USED; LONGEST / 8];
    let record = memory.as_mut_ptr().cast::<T>();
    // SAFETY: aligned, zero where a `Record` is read, and longer than the sizes that it says it
    // has.
    unsafe {
        record.cast::<u8>().write_bytes(0, first);
        record.cast::<usize>().write(first);
        let passed = read(record).unwrap_or_else(|why| panic!("{}: {why:?}", T::NAME));
        can_write(record).unwrap_or_else(|why| panic!("{}: {why:?}", T::NAME));
        write(record, passed).unwrap_or_else(|why| panic!("{}: {why:?}", T::NAME));
        assert_eq!(record.cast::<usize>().read(), first, "{}", T::NAME);
        let beyond = record.cast::<u8>().add(first);
        assert!((0..LONGEST - first).all(|at| beyond.add(at).read() == 0xa5), "{}", T::NAME);
        record.cast::<usize>().write(first - 1);
        assert!(read(record).is_err() && can_write(record).is_err(), "{}", T::NAME);
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn programs_of_the_first_version_are_understood() {
    check::<punctual_options>(72);
    check::<punctual_contract>(48);
    check::<punctual_best_effort>(40);
    check::<punctual_handler>(32);
    check::<punctual_stats>(152);
    check::<punctual_stopped>(40);
    check::<punctual_reservation_options>(40);
    check::<punctual_reserve>(32);
    check::<punctual_reservation_info>(72);
    check::<punctual_used>(32);
    check::<punctual_channel_request>(80);
    check::<punctual_channel_info>(48);
    check::<punctual_received>(32);
    check::<punctual_declaration>(32);
    check::<punctual_simulation>(64);
    check::<punctual_command>(56);
}
