//! Exports what is asked of a trace file, and of this host.

use std::ffi::c_char;

use punctual::{doctor, why};
use punctual_trace::check::Verdict;
use serde::Serialize;

use super::result::punctual_result;
use super::result::punctual_verdict::{
    PUNCTUAL_BROKEN, PUNCTUAL_KEPT, PUNCTUAL_NOT_JUDGEABLE, PUNCTUAL_UNABLE,
};
use crate::error::punctual_error;
use crate::error::{Failure, guarded};
use crate::sized::{out, path, text_bytes};

/// A line of the answer to why jobs were late.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Late(why::LateRecord<'a>),
    End(why::TraceEndRecord<'a>),
}

/// Judges the trace file at `trace` (docs/trace.md), like `punctual why FILE`. The JSON is a line
/// for each late job with its causes, and a last one with the verdict on each subject. The code of
/// the result is PUNCTUAL_KEPT if no promise was broken, PUNCTUAL_BROKEN if one was, and
/// PUNCTUAL_NOT_JUDGEABLE if something is missing in the file. Returns PUNCTUAL_EINVAL if the file
/// cannot be read or is no trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_why(
    trace: *const c_char,
    result: *mut *mut punctual_result,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (trace, to) = unsafe { (path(trace), out(result, "result")?) };
        let trace = trace.ok_or_else(|| Failure::invalid("trace is null"))?;
        let found = why::of_trace(trace)?;
        let code = match found.verdict() {
            Verdict::Kept => PUNCTUAL_KEPT,
            Verdict::Broken => PUNCTUAL_BROKEN,
            Verdict::NotJudgeable(_) => PUNCTUAL_NOT_JUDGEABLE,
        };
        let lines = found.late_records().map(Line::Late);
        let lines = lines.chain([Line::End(found.end_record())]);
        to.write(punctual_result::of_lines(code as _, lines)?);
        Ok(())
    })
}

/// Tries out which promises this host can keep, like `punctual doctor`, which takes a second or
/// two and all free real-time bandwidth for some milliseconds of it. XDP is tried on the network
/// interface `interface` too, which some drivers reset for that; null: on none. The code of the
/// result is PUNCTUAL_KEPT if this host can keep promises, else PUNCTUAL_UNABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_doctor(
    interface: *const c_char,
    result: *mut *mut punctual_result,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (interface, to) = unsafe { (text_bytes(interface), out(result, "result")?) };
        let interface = interface.map(str::from_utf8).transpose();
        let interface = interface.map_err(|_| Failure::invalid("interface is not UTF-8"))?;
        let diagnosis = doctor::diagnose(interface);
        let code = if diagnosis.able { PUNCTUAL_KEPT } else { PUNCTUAL_UNABLE };
        to.write(punctual_result::of(code as _, &diagnosis)?);
        Ok(())
    })
}
