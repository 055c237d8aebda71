//! Exports what is asked of a whole contract: whether it is admitted, and how it runs in virtual
//! time.

use std::ffi::c_char;
use std::mem::offset_of;

use punctual::admission::Answer;
use punctual::contract::{self, Declared, Noted};
use punctual::host::{self, Chosen};
use punctual::simulate::{ExecTimes, Options, Overheads, Pattern, Simulation};
use punctual_model::Duration;

use super::result::punctual_result;
use super::result::punctual_verdict::{PUNCTUAL_BROKEN, PUNCTUAL_KEPT};
use crate::error::punctual_error;
use crate::error::{Failure, guarded};
use crate::sized::{Record, out, path, read, text_bytes};
use crate::upcalls::within;

/// A contract as the command reads it (docs/contract.md), and the host on which it is to run.
/// Exactly one of path and text is given.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_declaration {
    /// sizeof(punctual_declaration).
    pub size: usize,
    /// The path of a file in TOML, or of rt-app's JSON (.json); "-" reads standard input. At most 8
    /// MiB.
    pub path: *const c_char,
    /// The contract itself, in TOML, or rt-app's JSON if it begins with a brace. At most 8 MiB.
    pub text: *const c_char,
    /// The costs of this host: the path of a file of `punctual calibrate`, or "ideal" for free
    /// switches. Null: $PUNCTUAL_HOST_PROFILE, else what was measured here, else ideal.
    pub host_profile: *const c_char,
}

// SAFETY: nullable pointers, a size first.
unsafe impl Record for punctual_declaration {
    const NAME: &'static str = "punctual_declaration";
    const FIRST: usize = offset_of!(Self, host_profile) + size_of::<*const c_char>();
}

impl punctual_declaration {
    /// Reads the contract, and the profile of the host.
    ///
    /// # Safety
    /// The texts are null or end with a zero.
    unsafe fn read(&self) -> Result<(Declared, Chosen), Failure> {
        // SAFETY: as promised.
        let (file, text, profile) =
            unsafe { (path(self.path), text_bytes(self.text), path(self.host_profile)) };
        let declared = match (file, text) {
            (Some(file), None) => contract::read(file)?,
            (None, Some(text)) => contract::of_text("contract", text)?,
            _ => {
                return Err(Failure::invalid(
                    "punctual_declaration needs a path or a text, and not both",
                ));
            }
        };
        Ok((declared, host::choose(profile)?))
    }
}

/// Tests whether a contract fits on a host, like `punctual admit`. Nothing is reserved. If `explain`
/// is not zero, the result says how streams were derived and how far each number could grow, which
/// takes several times as long. The code of the result is PUNCTUAL_KEPT if the contract is
/// admitted. It is PUNCTUAL_BROKEN if it is refused; the result then has the failed test, the
/// numbers and counter-offers. Returns PUNCTUAL_EINVAL, with file, line and column in the sentence,
/// if the contract is not valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_admit(
    declaration: *const punctual_declaration,
    explain: u32,
    result: *mut *mut punctual_result,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (declaration, to) = unsafe { (read(declaration)?, out(result, "result")?) };
        // SAFETY: as the caller promises.
        let (declared, host) = unsafe { declaration.read() }?;
        let answer = Answer::new(declared, host, explain != 0);
        let code = if answer.outcome.is_ok() { PUNCTUAL_KEPT } else { PUNCTUAL_BROKEN };
        to.write(punctual_result::of(code as _, &answer)?);
        Ok(())
    })
}

/// The pattern of releases (punctual_simulation.arrivals).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_arrivals {
    /// PUNCTUAL_PERIODIC, or PUNCTUAL_SPORADIC with a seed.
    PUNCTUAL_USUAL_ARRIVALS = 0,
    /// All at the critical instant, then as densely as the contract allows.
    PUNCTUAL_PERIODIC = 1,
    /// With drawn gaps and jitter.
    PUNCTUAL_SPORADIC = 2,
    /// Piled up by the jitter, then dense, then a drawn pause.
    PUNCTUAL_BURSTY = 3,
    /// All at once, 1 ns after the longest quantum of any task began.
    PUNCTUAL_ADVERSARIAL = 4,
}

/// The execution times of jobs (punctual_simulation.exec_times).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_exec_times {
    /// PUNCTUAL_WORST, or PUNCTUAL_DRAWN for sporadic arrivals.
    PUNCTUAL_USUAL_EXEC_TIMES = 0,
    /// The wcet.
    PUNCTUAL_WORST = 1,
    /// Drawn, up to the wcet.
    PUNCTUAL_DRAWN = 2,
}

/// The conditions of a run in virtual time. All zero but the size: ten seconds without draws.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_simulation {
    /// sizeof(punctual_simulation).
    pub size: usize,
    /// The virtual time after which nothing is released; 0: ten seconds.
    pub until_ns: u64,
    /// The seed of all draws, if seeded is not zero. The same seed gives the same run.
    pub seed: u64,
    /// Not zero: there is a seed.
    pub seeded: u32,
    /// A punctual_arrivals.
    pub arrivals: u32,
    /// A punctual_exec_times.
    pub exec_times: u32,
    /// Must be zero.
    pub reserved: u32,
    /// The cost of each switch to a job. If all three costs are 0, those of the host profile hold.
    pub switch_ns: u64,
    /// The cost of refilling the caches after a switch.
    pub cache_ns: u64,
    /// The cost of a release that finds the CPU idle.
    pub wake_up_ns: u64,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_simulation {
    const NAME: &'static str = "punctual_simulation";
    const FIRST: usize = offset_of!(Self, wake_up_ns) + size_of::<u64>();
}

impl punctual_simulation {
    fn options(&self) -> Result<Options, Failure> {
        if self.reserved != 0 {
            return Err(Failure::invalid("punctual_simulation.reserved is not zero"));
        }
        let until = within(self.until_ns, "until_ns")?;
        let overheads = Overheads {
            switch_ns: within(self.switch_ns, "switch_ns")?,
            cache_ns: within(self.cache_ns, "cache_ns")?,
            wake_up_ns: within(self.wake_up_ns, "wake_up_ns")?,
        };
        let usual = Options::default();
        Ok(Options {
            until: if until == 0 { usual.until } else { Duration::from_nanos(until) },
            seed: (self.seeded != 0).then_some(self.seed),
            arrivals: self.pattern()?,
            exec_times: self.exec_times()?,
            overheads: (overheads != Overheads::default()).then_some(overheads),
            ..usual
        })
    }

    fn pattern(&self) -> Result<Option<Pattern>, Failure> {
        const USUAL: u32 = punctual_arrivals::PUNCTUAL_USUAL_ARRIVALS as u32;
        const PERIODIC: u32 = punctual_arrivals::PUNCTUAL_PERIODIC as u32;
        const SPORADIC: u32 = punctual_arrivals::PUNCTUAL_SPORADIC as u32;
        const BURSTY: u32 = punctual_arrivals::PUNCTUAL_BURSTY as u32;
        const ADVERSARIAL: u32 = punctual_arrivals::PUNCTUAL_ADVERSARIAL as u32;
        Ok(match self.arrivals {
            USUAL => None,
            PERIODIC => Some(Pattern::Periodic),
            SPORADIC => Some(Pattern::Sporadic),
            BURSTY => Some(Pattern::Bursty),
            ADVERSARIAL => Some(Pattern::Adversarial),
            other => {
                return Err(Failure::invalid(format!(
                    "arrivals is {other}, and must be one of punctual_arrivals"
                )));
            }
        })
    }

    fn exec_times(&self) -> Result<Option<ExecTimes>, Failure> {
        const USUAL: u32 = punctual_exec_times::PUNCTUAL_USUAL_EXEC_TIMES as u32;
        const WORST: u32 = punctual_exec_times::PUNCTUAL_WORST as u32;
        const DRAWN: u32 = punctual_exec_times::PUNCTUAL_DRAWN as u32;
        Ok(match self.exec_times {
            USUAL => None,
            WORST => Some(ExecTimes::Worst),
            DRAWN => Some(ExecTimes::Drawn),
            other => {
                return Err(Failure::invalid(format!(
                    "exec_times is {other}, and must be one of punctual_exec_times"
                )));
            }
        })
    }
}

/// Runs a contract under its own policy in virtual time, like `punctual simulate`. `simulation` may
/// be null. The code of the result is PUNCTUAL_KEPT if the contract is admitted and nothing with a
/// promise was late, else PUNCTUAL_BROKEN. A refused contract runs all the same if it can, on one
/// CPU; if not, the call returns PUNCTUAL_EREFUSED. Returns PUNCTUAL_EINVAL, with file, line and
/// column in the sentence, if the contract is not valid, and also if the run would take too long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_simulate(
    declaration: *const punctual_declaration,
    simulation: *const punctual_simulation,
    result: *mut *mut punctual_result,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (declaration, to) = unsafe { (read(declaration)?, out(result, "result")?) };
        let options = match simulation.is_null() {
            true => Options::default(),
            // SAFETY: as the caller promises.
            false => unsafe { read(simulation) }?.options()?,
        };
        // SAFETY: as the caller promises.
        let (Declared { contract, notes, .. }, host) = unsafe { declaration.read() }?;
        let report = Simulation::new(&contract, &host, options)?.run(&mut ())?;
        let code = if report.is_kept() { PUNCTUAL_KEPT } else { PUNCTUAL_BROKEN };
        to.write(punctual_result::of(code as _, &Noted { result: &report, notes: &notes })?);
        Ok(())
    })
}
