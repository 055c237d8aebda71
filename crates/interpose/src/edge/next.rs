//! The calls as the program would have them without us: those of the C library, or of another library
//! that was loaded before it (dlsym(3), RTLD_NEXT).

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A call by its name, of the type `F`.
pub(super) struct Next<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    function: std::marker::PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// # Safety
    /// `F` is the type of a C function pointer that says how the function called `name` is called.
    pub(super) const unsafe fn named(name: &'static CStr) -> Self {
        assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>(), "a pointer to a function");
        Self { name, found: AtomicPtr::new(ptr::null_mut()), function: std::marker::PhantomData }
    }

    /// Looks for it, unless it was found; none if there is no such function.
    pub(super) fn get(&self) -> Option<F> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: a name that ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: of the same size, as was asserted; not null; and of this type, as `named` was
        // promised.
        Some(unsafe { mem::transmute_copy(&found) })
    }
}
