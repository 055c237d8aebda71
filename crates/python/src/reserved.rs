//! Reservations and time constraints of the calling thread.

use std::sync::OnceLock;

use punctual_linux::clock;
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Service};
use punctual_runtime::reservation::{self as runtime, Refused, Reservations};
use pyo3::prelude::*;

use crate::programs::parse;
use crate::{BadInput, CannotHere, duration};

/// The reservations of this process, which are probed once.
static ALL: OnceLock<Reservations> = OnceLock::new();

/// A reservation of the thread that made it, until it is dropped there.
#[pyclass(module = "punctual_rt._native", unsendable)]
pub(crate) struct Reserved(Option<runtime::Reserved>);

#[pymethods]
impl Reserved {
    /// Reserves X every Y for the calling thread.
    #[new]
    #[pyo3(signature = (reservation, hard, exact))]
    fn new(reservation: &str, hard: bool, exact: bool) -> PyResult<Self> {
        let reservation = parse(reservation)?;
        let enforcement = if hard { Enforcement::Hard } else { Enforcement::Soft };
        let reserved = runtime::Reserved::current(all()?, reservation, enforcement, exact);
        reserved.map(|reserved| Self(Some(reserved))).map_err(raised)
    }

    /// Ends the reservation: the thread is an ordinary one again.
    fn end(&mut self) {
        drop(self.0.take());
    }

    /// The back end and the reason for it.
    #[getter]
    fn because(&self) -> PyResult<(&'static str, String)> {
        let choice = self.get()?.choice();
        Ok((choice.backend.name(), choice.because.clone()))
    }

    /// Sleeps until the next period, and returns its beginning on CLOCK_MONOTONIC.
    fn wait_for_next_period(&mut self, py: Python<'_>) -> PyResult<u64> {
        let reserved = self.0.as_mut().ok_or_else(ended)?;
        let at = reserved.next_period();
        // The reservation stays on this thread, which alone sleeps.
        py.detach(|| clock::sleep_until(at));
        reserved.enter_period(at);
        py.check_signals()?;
        Ok(at.as_nanos())
    }

    /// The processor time that the thread used since this period began.
    #[getter]
    fn used_ns(&self) -> PyResult<u64> {
        Ok(self.get()?.used().as_nanos())
    }

    /// The rest of this period's budget.
    #[getter]
    fn left_ns(&self) -> PyResult<u64> {
        Ok(self.get()?.left().as_nanos())
    }

    /// Changes the budget and the period.
    fn change(&mut self, reservation: &str) -> PyResult<()> {
        let reservation = parse(reservation)?;
        self.0.as_mut().ok_or_else(ended)?.change(reservation).map_err(raised)
    }
}

impl Reserved {
    fn get(&self) -> PyResult<&runtime::Reserved> {
        self.0.as_ref().ok_or_else(ended)
    }
}

/// A time constraint of the thread that made it, until it is dropped there.
#[pyclass(module = "punctual_rt._native", unsendable)]
pub(crate) struct Constraint {
    constraint: Option<runtime::Constraint>,
    /// The estimate, and the deadline on CLOCK_MONOTONIC.
    terms: (u64, u64),
}

#[pymethods]
impl Constraint {
    /// Requests processor time for the calling thread from an instant on, or from now.
    #[new]
    #[pyo3(signature = (start_ns, estimate, relative_deadline))]
    fn begin(start_ns: Option<u64>, estimate: &str, relative_deadline: &str) -> PyResult<Self> {
        let estimate = Service::from_nanos(duration(estimate)?.as_nanos());
        let relative_deadline = duration(relative_deadline)?;
        if estimate.is_zero() || relative_deadline.is_zero() {
            return Err(BadInput::new_err("the estimate and the deadline must be positive"));
        }
        let all = all()?;
        let start = start_ns.map_or(Instant::ZERO, Instant::from_nanos).max(clock::now());
        let deadline = start.saturating_add(relative_deadline);
        let begun = runtime::Constraint::begin(all, start, estimate, deadline);
        let constraint = Some(begun.map_err(raised)?);
        Ok(Self { constraint, terms: (estimate.as_nanos(), deadline.as_nanos()) })
    }

    /// The estimate and the absolute deadline, in nanoseconds.
    #[getter]
    fn terms(&self) -> (u64, u64) {
        self.terms
    }

    /// Ends the constraint: returns the time used, and whether it ended by its deadline.
    fn end(&mut self) -> PyResult<(u64, bool)> {
        let constraint = self.constraint.take();
        let constraint =
            constraint.ok_or_else(|| BadInput::new_err("the time constraint has ended"))?;
        let runtime::Used { used, in_time, .. } = constraint.end();
        Ok((used.as_nanos(), in_time))
    }
}

/// Returns the reservations of this process.
fn all() -> PyResult<&'static Reservations> {
    match ALL.get() {
        Some(all) => Ok(all),
        None => {
            let all = Reservations::new().map_err(|why| CannotHere::new_err(why.to_string()))?;
            Ok(ALL.get_or_init(|| all))
        }
    }
}

fn ended() -> PyErr {
    BadInput::new_err("the reservation has ended")
}

fn raised(why: Refused) -> PyErr {
    match why {
        Refused::DoesNotFit { .. }
        | Refused::NoRoom { .. }
        | Refused::TooMany { .. }
        | Refused::NoBandwidth { .. } => crate::refused(&(&why).into()),
        other => CannotHere::new_err(other.to_string()),
    }
}
