//! The functions that the program would call without us: those of the C library, or of another
//! library that was loaded before it (dlsym(3), RTLD_NEXT).

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function by its name, of the type `F`.
pub(super) struct Next<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    function: std::marker::PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// Makes an entry that has not been looked up.
    ///
    /// # Safety
    /// `F` is the C function pointer type of the function called `name`.
    pub(super) const unsafe fn named(name: &'static CStr) -> Self {
        assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>(), "a pointer to a function");
        Self { name, found: AtomicPtr::new(ptr::null_mut()), function: std::marker::PhantomData }
    }

    /// Returns the function, looking it up the first time, or `None` if there is no such function.
    pub(super) fn get(&self) -> Option<F> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is zero-terminated.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: the pointer has the size of `F`, as asserted; it is not null; and it is of type
        // `F`, as the caller of `named` guaranteed.
        Some(unsafe { mem::transmute_copy(&found) })
    }
}
