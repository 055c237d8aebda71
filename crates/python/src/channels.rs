//! Channels: messages with a promised delay, through the broker.
//!
//! Messages are copied, so that no memory of Python is touched while Python's lock is released.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::refusal::RefusalRecord;
use punctual_channel::client::{DrainError, ReceiveError, Receiving, Rest, SendError, Sending};
use punctual_client::want::{RawChannel, WantedChannel};
use punctual_client::{Broker, ChannelError, ClientError, GrantedChannel};
use punctual_linux::clock;
use punctual_model::channel::{Direction, LinearBounded};
use punctual_model::{Duration, Instant};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use crate::{BadInput, CannotHere, duration, refused};

/// How often a wait looks for signals that Python has to handle.
const LOOK: Duration = Duration::from_millis(50);

enum End {
    Sends(Sending),
    Receives(Receiving),
}

struct Open {
    end: End,
    broker: Broker,
    granted: GrantedChannel,
}

/// A channel. Any thread may use it; calls wait for each other.
#[pyclass(module = "punctual_rt._native", frozen)]
pub(crate) struct Channel {
    open: Mutex<Option<Open>>,
    grant: u64,
    delay_bound_ns: Option<u64>,
    max_message: u32,
}

/// The outcome of one look at a queue, which lasts [`LOOK`] at most.
enum Turn<T> {
    Done(T),
    /// Nothing yet: look for signals, and again.
    Again,
}

#[pymethods]
impl Channel {
    /// Requests a channel from the broker.
    #[new]
    #[pyo3(signature = (name, address, spacing, max_message, min_message, burst, delay_bound, direction, framing, too_early, number, slots, broker))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn open(
        py: Python<'_>,
        name: &str,
        address: &str,
        spacing: &str,
        max_message: u32,
        min_message: u32,
        burst: u32,
        delay_bound: Option<&str>,
        direction: String,
        framing: String,
        too_early: String,
        number: u32,
        slots: Option<u32>,
        broker: PathBuf,
    ) -> PyResult<Self> {
        let bad = |why: &dyn std::fmt::Display| {
            BadInput::new_err(format!("the channel cannot be: {why}"))
        };
        let arrivals = LinearBounded::new(min_message, max_message, duration(spacing)?, burst)
            .map_err(|why| bad(&why))?;
        let bound = delay_bound.map(duration).transpose()?;
        let place = address.parse().map_err(|_| {
            let why = format!("address is {address:?}; write 192.0.2.7:4000 or [2001:db8::7]:4000");
            BadInput::new_err(why)
        })?;
        let mut raw = RawChannel::from(&WantedChannel::sending(name, arrivals, bound, place));
        (raw.direction, raw.framing, raw.too_early, raw.number) =
            (direction, framing, too_early, number);
        raw.slots = slots.unwrap_or(raw.slots);
        // Checks what the broker checks.
        let want = WantedChannel::try_from(raw).map_err(|why| bad(&why))?;
        py.detach(|| {
            let host = |why: ClientError| CannotHere::new_err(why.to_string());
            let mut broker = Broker::connect_to(&broker).map_err(host)?;
            let granted = broker.open_channel(&want).map_err(|why| raised(why, &want))?;
            let end = match want.direction {
                Direction::Send => broker.attach_channel(&granted).map(End::Sends),
                Direction::Receive => broker.attach_channel(&granted).map(End::Receives),
            };
            Ok(Self {
                grant: granted.id().0,
                delay_bound_ns: granted.delay_bound().map(Duration::as_nanos),
                max_message,
                open: Mutex::new(Some(Open { end: end.map_err(host)?, broker, granted })),
            })
        })
    }

    /// The number of the grant.
    #[getter]
    fn grant(&self) -> u64 {
        self.grant
    }

    /// The promised bound, or nothing for best effort.
    #[getter]
    fn delay_bound_ns(&self) -> Option<u64> {
        self.delay_bound_ns
    }

    /// Sends a copy of a message. Waits for room, for so many seconds at most.
    fn send(&self, py: Python<'_>, message: PyBuffer<u8>, seconds: Option<f64>) -> PyResult<()> {
        let message = message.to_vec(py)?;
        self.turns(py, seconds, |open, until| {
            let End::Sends(sending) = &mut open.end else {
                return Err(BadInput::new_err("the channel receives, and sends nothing"));
            };
            match sending.send_until(&message, until) {
                Ok(()) => Ok(Turn::Done(())),
                Err(SendError::TimedOut { .. }) => Ok(Turn::Again),
                Err(why @ SendError::TooLong { .. }) => Err(BadInput::new_err(why.to_string())),
                Err(why) => Err(CannotHere::new_err(why.to_string())),
            }
        })
    }

    /// Waits until all messages that were sent have left.
    fn drain(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        self.turns(py, seconds, |open, until| {
            let End::Sends(sending) = &mut open.end else {
                return Err(BadInput::new_err("the channel receives, and sends nothing"));
            };
            match sending.drain_until(until) {
                Ok(()) => Ok(Turn::Done(())),
                Err(DrainError::TimedOut { .. }) => Ok(Turn::Again),
                Err(why) => Err(CannotHere::new_err(why.to_string())),
            }
        })
    }

    /// Takes the next message: its bytes, its number and its arrival on CLOCK_MONOTONIC. With
    /// `most`, a longer message is an error, and stays the next one.
    fn receive(
        &self,
        py: Python<'_>,
        seconds: Option<f64>,
        most: Option<usize>,
    ) -> PyResult<(Vec<u8>, u64, u64)> {
        let mut into = vec![0; most.unwrap_or(self.max_message as usize)];
        let received = self.turns(py, seconds, |open, until| {
            let End::Receives(receiving) = &mut open.end else {
                return Err(BadInput::new_err("the channel sends, and receives nothing"));
            };
            match receiving.receive_until(&mut into, until) {
                Ok(received) => Ok(Turn::Done(received)),
                Err(ReceiveError::TimedOut | ReceiveError::Empty) => Ok(Turn::Again),
                Err(why @ ReceiveError::TooSmall { .. }) => Err(BadInput::new_err(why.to_string())),
                Err(why) => Err(CannotHere::new_err(why.to_string())),
            }
        })?;
        into.truncate(received.bytes);
        Ok((into, received.number, received.arrived.as_nanos()))
    }

    /// The descriptor to poll for reading between `before_poll` and `after_poll`.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |open| match &open.end {
            End::Sends(sending) => Ok(sending.as_fd().as_raw_fd()),
            End::Receives(receiving) => Ok(receiving.as_fd().as_raw_fd()),
        })
    }

    /// Announces a poll; returns whether it may sleep, since there is nothing to do.
    fn before_poll(&self, py: Python<'_>) -> PyResult<bool> {
        let rest = self.with(py, |open| match &mut open.end {
            End::Sends(sending) => sending.before_poll().map_err(cannot),
            End::Receives(receiving) => receiving.before_poll().map_err(cannot),
        });
        Ok(rest? == Rest::Sleep)
    }

    /// Ends what `before_poll` announced.
    fn after_poll(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |open| match &mut open.end {
            End::Sends(sending) => sending.after_poll().map_err(cannot),
            End::Receives(receiving) => receiving.after_poll().map_err(cannot),
        })
    }

    /// Gives the channel back. Messages that have not left are lost.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(Open { mut broker, granted, .. }) = self.lock().take() {
                // Without a broker the channel ends by itself.
                let _ = broker.release_channel(granted);
            }
        });
    }
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // A panic leaves the queue consistent: what was published stays published.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `with` on the open channel, without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        with: impl FnOnce(&mut Open) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| match self.lock().as_mut() {
            Some(open) => with(open),
            None => Err(BadInput::new_err("the channel is closed")),
        })
    }

    /// Looks until it is done or so many seconds have passed, and lets Python handle signals.
    fn turns<T: Send>(
        &self,
        py: Python<'_>,
        seconds: Option<f64>,
        mut turn: impl FnMut(&mut Open, Instant) -> PyResult<Turn<T>> + Send,
    ) -> PyResult<T> {
        // A cast to an integer saturates; no number is 0.
        let length = seconds.map(|seconds| Duration::from_nanos((seconds * 1e9) as u64));
        let end = length.map_or(Instant::MAX, |length| clock::now().saturating_add(length));
        loop {
            let until = end.min(clock::now().saturating_add(LOOK));
            match self.with(py, |open| turn(open, until))? {
                Turn::Done(found) => return Ok(found),
                Turn::Again if clock::now() >= end => {
                    return Err(PyTimeoutError::new_err("nothing happened in time"));
                }
                Turn::Again => py.check_signals()?,
            }
        }
    }
}

fn cannot(why: impl std::fmt::Display) -> PyErr {
    CannotHere::new_err(why.to_string())
}

fn raised(why: ChannelError, asked: &WantedChannel) -> PyErr {
    match why {
        ChannelError::Refused(why) => refused(&RefusalRecord::of_channel(&why, asked)),
        ChannelError::Client(_) => CannotHere::new_err(why.to_string()),
    }
}
