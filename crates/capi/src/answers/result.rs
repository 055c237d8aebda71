//! Exports results: what a question was answered with, as JSON and as one number.

use std::ffi::{CString, c_char, c_int};

use serde::Serialize;

use crate::error::punctual_error;
use crate::error::{Failure, guarded};

/// The answer to a question (punctual_result_code).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_verdict {
    /// Admitted, every promise kept, or this host is able.
    PUNCTUAL_KEPT = 0,
    /// Refused, or a promise was broken.
    PUNCTUAL_BROKEN = 1,
    /// This host is not able.
    PUNCTUAL_UNABLE = 3,
    /// The evidence that would decide is missing.
    PUNCTUAL_NOT_JUDGEABLE = 4,
}

/// The result of a question or of a program. It is the caller's, who frees it with
/// punctual_result_free. Any thread may read it until then.
pub struct punctual_result {
    code: c_int,
    json: CString,
}

impl punctual_result {
    /// Makes a result for the caller to free, of an answer that serialises itself.
    pub(crate) fn of(code: c_int, answer: &impl Serialize) -> Result<*mut Self, Failure> {
        Self::of_lines(code, [answer])
    }

    /// Makes a result of several answers, one a line.
    pub(crate) fn of_lines(
        code: c_int,
        answers: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<*mut Self, Failure> {
        let lines = answers.into_iter().map(|answer| serde_json::to_string(&answer));
        let lines = lines.collect::<Result<Vec<_>, _>>().map_err(Failure::bug)?;
        // JSON escapes control characters.
        let json = CString::new(lines.join("\n")).map_err(Failure::bug)?;
        Ok(Box::into_raw(Box::new(Self { code, json })))
    }
}

/// Returns the exit code that the command would have: a punctual_verdict, or for a program its own
/// exit code, 128 + the signal if one killed it. Returns -1 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_result_code(result: *const punctual_result) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { result.as_ref() }.map_or(-1, |result| result.code)
}

/// Returns the result as JSON in UTF-8, with the keys that the command prints with --json. It is
/// valid until the result is freed. Returns null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_result_json(result: *const punctual_result) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { result.as_ref() }.map_or(std::ptr::null(), |result| result.json.as_ptr())
}

/// Frees a result. Does nothing for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_result_free(result: *mut punctual_result) -> punctual_error {
    guarded(|| {
        if !result.is_null() {
            // SAFETY: made by `punctual_result::of_lines`, and given up by the caller.
            drop(unsafe { Box::from_raw(result) });
        }
        Ok(())
    })
}
