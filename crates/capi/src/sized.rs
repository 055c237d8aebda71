//! Reads and writes structures whose first member is their size, so that a program and a library of
//! different versions understand each other.
//!
//! An older program passes less, and the members it does not know are taken as zero. A newer
//! program passes more, which is refused unless it is zero, because the library would not do what
//! it says.

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::slice;

use crate::error::Failure;

/// The longest structure. A greater size means that the program forgot to initialise it.
const LONGEST: usize = 4096;

/// A structure of the API that starts with its size.
///
/// # Safety
/// It is `repr(C)`, its first member is a `usize`, and every pattern of bits is a value of it.
pub(crate) unsafe trait Record: Copy {
    /// The name of the structure in C.
    const NAME: &'static str;
    /// The size in the first version of the API that has the structure: up to the end of the last
    /// member of that version, by name. The size of the structure itself would grow with each new
    /// member, and so refuse older programs.
    const FIRST: usize;
}

/// Returns the size that `record` says it has, if it is within bounds.
///
/// # Safety
/// `record` is null or points to a `usize` that may be read.
unsafe fn size_of_record<T: Record>(record: *const T) -> Result<usize, Failure> {
    let name = T::NAME;
    if record.is_null() {
        return Err(Failure::invalid(format!("the pointer to {name} is null")));
    }
    if !record.is_aligned() {
        return Err(Failure::invalid(format!("the pointer to {name} is not aligned")));
    }
    // SAFETY: not null, aligned, and readable as the caller promises; a size comes first.
    let size = unsafe { record.cast::<usize>().read() };
    if size < T::FIRST || size > LONGEST {
        let first = T::FIRST;
        return Err(Failure::invalid(format!(
            "the size in {name} is {size}, and must be {first} to {LONGEST}: set it to sizeof({name})"
        )));
    }
    Ok(size)
}

/// Reads a structure that a program passes.
///
/// # Safety
/// `record` is null or points to a structure of the size it says, none of whose bytes is written to
/// meanwhile. Padding counts as bytes: C leaves it at any value, and it is never looked at here.
pub(crate) unsafe fn read<T: Record>(record: *const T) -> Result<T, Failure> {
    // SAFETY: as promised.
    let size = unsafe { size_of_record(record) }?;
    if size > size_of::<T>() {
        let more = size - size_of::<T>();
        // SAFETY: within the size that it says it has.
        let rest = unsafe { slice::from_raw_parts(record.cast::<u8>().add(size_of::<T>()), more) };
        if rest.iter().any(|&byte| byte != 0) {
            return Err(Failure::invalid(format!(
                "{} has members that this library does not know; update libpunctual, or leave \
                 them at zero",
                T::NAME
            )));
        }
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: both are at least that long, and do not overlap; all bits are a value of a `Record`.
    unsafe {
        std::ptr::copy_nonoverlapping(record.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known);
        Ok(copy.assume_init())
    }
}

/// Writes a structure for the program: as much as it has room for, and zero into members that this
/// library does not know.
///
/// # Safety
/// `record` is null or points to a structure of the size it says, which may be written to and which
/// no other thread uses meanwhile.
pub(crate) unsafe fn write<T: Record>(record: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: as promised.
    let size = unsafe { size_of_record(record.cast_const()) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: within the size it says it has; `value` is at least that long, and our own. The size
    // member stays.
    unsafe {
        let to = record.cast::<u8>();
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to, known);
        to.add(known).write_bytes(0, size - known);
        record.cast::<usize>().write(size);
    }
    Ok(())
}

/// Checks that a result can be written, before anything is done that cannot be undone.
///
/// # Safety
/// As for [`write`].
pub(crate) unsafe fn can_write<T: Record>(record: *mut T) -> Result<(), Failure> {
    // SAFETY: as promised.
    unsafe { size_of_record(record.cast_const()) }.map(|_| ())
}

/// Returns a reference to write one result to, or an error if the pointer is null or not aligned.
///
/// # Safety
/// `to` is null or may be written to, and no other thread uses it meanwhile.
pub(crate) unsafe fn out<'a, T>(to: *mut T, name: &str) -> Result<&'a mut MaybeUninit<T>, Failure> {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::invalid(format!("{name} is null or not aligned")));
    }
    // SAFETY: not null, aligned, ours as promised; a `MaybeUninit` may hold anything.
    Ok(unsafe { &mut *to.cast::<MaybeUninit<T>>() })
}

/// Returns a reference to the object of a handle, or an error if it is null.
///
/// # Safety
/// `handle` is null or was given by this library and not freed, and is not freed meanwhile.
pub(crate) unsafe fn handle<'a, T>(handle: *mut T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: as promised.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::invalid(format!("{name} is null")))
}

fn check_array<T>(from: *const T, count: usize, name: &str) -> Result<(), Failure> {
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    if from.is_null() || !from.is_aligned() || bytes.is_none() {
        return Err(Failure::invalid(format!(
            "{name} is null or not aligned, or {count} members are more than fit in memory"
        )));
    }
    Ok(())
}

/// Returns an array to write to, which may be uninitialised.
///
/// # Safety
/// `to` points to `count` members that no other thread uses meanwhile, or `count` is zero.
pub(crate) unsafe fn room<'a, T>(
    to: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(to.cast_const(), count, name)?;
    // SAFETY: not null, aligned, not longer than an allocation can be, ours as promised; a
    // `MaybeUninit` may hold anything.
    Ok(unsafe { slice::from_raw_parts_mut(to.cast(), count) })
}

/// Returns an array to read.
///
/// # Safety
/// `from` points to `count` values that are not written to meanwhile, or `count` is zero.
pub(crate) unsafe fn list<'a, T>(
    from: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(from, count, name)?;
    // SAFETY: not null, aligned, not longer than an allocation can be, values as promised.
    Ok(unsafe { slice::from_raw_parts(from, count) })
}

/// Returns a text that a program passes, or "" if it is null.
///
/// # Safety
/// `text` is null or ends with a zero.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Returns the bytes of a text that a program passes, or `None` if it is null.
///
/// # Safety
/// `text` is null, or ends with a zero and is not written to as long as the result is used.
pub(crate) unsafe fn text_bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as promised.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns a path that a program passes, or `None` if it is null.
///
/// # Safety
/// As for [`text_bytes`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Option<&'a Path> {
    // SAFETY: as promised.
    unsafe { text_bytes(path) }.map(|bytes| Path::new(OsStr::from_bytes(bytes)))
}

#[cfg(test)]
mod versions;

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Known {
        size: usize,
        old: u64,
        new: u64,
    }

    // SAFETY: integers only, a size first.
    unsafe impl Record for Known {
        const NAME: &'static str = "known";
        const FIRST: usize = 16;
    }

    #[repr(C)]
    struct Longer {
        known: Known,
        more: u64,
    }

    #[test]
    fn an_older_program_passes_and_gets_only_the_members_it_knows() {
        let mut passed = Known { size: 16, old: 7, new: 8 };
        // SAFETY: of the size that it says.
        let read = unsafe { read(&raw const passed) }.expect("the first size");
        assert_eq!(read, Known { size: 16, old: 7, new: 0 });
        let value = Known { size: 24, old: 1, new: 2 };
        // SAFETY: as above.
        unsafe { write(&raw mut passed, value) }.expect("the first size");
        assert_eq!(passed, Known { size: 16, old: 1, new: 8 });
    }

    #[test]
    fn a_newer_program_must_leave_unknown_members_at_zero() {
        let known = Known { size: size_of::<Longer>(), old: 7, new: 8 };
        let mut passed = Longer { known, more: 0 };
        let record = (&raw mut passed).cast::<Known>();
        // SAFETY: of the size that it says, both times.
        unsafe {
            assert_eq!(read(record).expect("zero is nothing asked"), known);
            (*record.cast::<Longer>()).more = 1;
            assert!(read(record).expect_err("unknown").sentence.contains("update libpunctual"));
            write(record, Known { size: 24, old: 1, new: 2 }).expect("room");
        }
        assert_eq!((passed.known.size, passed.known.new, passed.more), (32, 2, 0));
    }

    #[test]
    fn an_invalid_record_is_refused() {
        let mut record = Known { size: 0, old: 0, new: 0 };
        for size in [0, 15, LONGEST + 1, usize::MAX] {
            record.size = size;
            // SAFETY: the size is refused, so nothing beyond the size is touched.
            assert!(unsafe { read(&raw const record) }.is_err(), "{size}");
        }
        // SAFETY: null and misaligned pointers are refused unread.
        unsafe {
            assert!(read::<Known>(std::ptr::null()).is_err());
            assert!(write::<Known>(std::ptr::null_mut(), record).is_err());
            assert!(read((&raw const record).wrapping_byte_add(1)).is_err());
            assert!(room::<u64>(std::ptr::null_mut(), 1, "a").is_err());
            assert!(list(&raw const record.old, usize::MAX, "a").is_err());
        }
    }
}
