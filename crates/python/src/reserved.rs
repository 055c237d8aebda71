//! A reservation of the calling thread.

use std::sync::OnceLock;

use punctual_linux::clock;
use punctual_model::reservation::Enforcement;
use punctual_runtime::reservation::{self as runtime, Refused, Reservations};
use pyo3::prelude::*;

use crate::programs::parse;
use crate::{BadInput, CannotHere};

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
        let all = match ALL.get() {
            Some(all) => all,
            None => {
                let all =
                    Reservations::new().map_err(|why| CannotHere::new_err(why.to_string()))?;
                ALL.get_or_init(|| all)
            }
        };
        let enforcement = if hard { Enforcement::Hard } else { Enforcement::Soft };
        let reserved = runtime::Reserved::current(all, reservation, enforcement, exact);
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
