//! One call of a station: training, then data, then the end.

use std::collections::VecDeque;

use punctual_model::{Duration, Instant};

use crate::at::{
    Compressed, CompressionSelection, Connection, ErrorControl, Fallback, OriginatorRequest,
    Settings,
};
use crate::lapm::xid::Compression;
use crate::lapm::{Closed, LinkStats, Outcome, Start};
use crate::modem::{NoModem, Role};
use crate::pump::Pump;
use crate::supervision::Verdict;
use crate::v42bis::Sizes;

/// The time that the calling end waits for detection. V.42's T400 is 750 ms, counted from an
/// instant that both ends share. These ends connect up to a second apart, so the first must wait
/// longer.
const T400: Duration = Duration::from_secs(3);

/// The time that a call which is hung up has to deliver the bytes written.
const FLUSH: Duration = Duration::from_secs(4);

/// The time to wait for the far end to agree to the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// The time that the modem continues after error control ended, so that its last frame reaches the
/// far end.
const LAST_FRAME: Duration = Duration::from_millis(800);

/// The progress of a call.
pub(super) enum Progress {
    /// No change.
    Pending,
    /// Data flows from here on.
    Connected(Connection),
    /// Over: no more samples are sent or received.
    Over,
}

pub(super) struct Call {
    pump: Pump,
    role: Role,
    start: Start,
    fallback: Fallback,
    compression: CompressionSelection,
    announced: bool,
    over: bool,
    /// The time at which its own terminal hung up.
    finishing: Option<Instant>,
    /// The times at which error control was asked to end, and ended.
    released: Option<Instant>,
    ended: Option<Instant>,
}

impl Call {
    pub(super) fn new(now: Instant, calling: bool, settings: &Settings) -> Result<Self, NoModem> {
        let role = if calling { Role::Calling } else { Role::Answering };
        let (start, fallback) = selection(role, settings);
        Ok(Self {
            pump: Pump::greeting(now, role, settings)?,
            role,
            start,
            fallback,
            compression: settings.compression,
            announced: false,
            over: false,
            finishing: None,
            released: None,
            ended: None,
        })
    }

    pub(super) fn exchange(
        &mut self,
        now: Instant,
        received: &[i16],
        sent: &mut [i16],
        to_send: &mut VecDeque<u8>,
    ) -> Progress {
        if self.over {
            return Progress::Over;
        }
        self.pump.receive_samples(now, received);
        self.pump.transmit_samples(now, sent);
        if self.pump.session().is_none() {
            if self.pump.has_failed() {
                return self.end();
            }
            if self.pump.is_connected(now) {
                self.pump.begin(now, self.start, self.offers());
            }
            return Progress::Pending;
        }
        if let Some(session) = self.pump.session() {
            let (front, back) = to_send.as_slices();
            let mut taken = session.write(front);
            if taken == front.len() {
                taken += session.write(back);
            }
            to_send.drain(..taken);
        }
        if let Some(since) = self.finishing {
            return self.farewell(now, since, to_send.is_empty());
        }
        if self.pump.supervise(now) == Verdict::NoCarrier {
            return self.end();
        }
        match self.pump.outcome() {
            Outcome::Pending => Progress::Pending,
            Outcome::Corrected if self.lacks_compression() => self.end(),
            Outcome::Corrected => self.announce(ErrorControl::Lapm),
            Outcome::Plain if self.lacks_compression() => self.end(),
            Outcome::Plain if self.start == Start::Plain || self.fallback == Fallback::Allowed => {
                self.announce(ErrorControl::None)
            }
            // Error control could not be set up, and the call may continue without it.
            Outcome::Closed(Closed::NoPeer | Closed::Refused)
                if !self.announced && self.fallback == Fallback::Allowed =>
            {
                self.pump.begin(now, Start::Plain, Compression::default());
                Progress::Pending
            }
            Outcome::Plain => self.end(),
            Outcome::Closed(_) => self.end_after_last_frame(now),
        }
    }

    /// Starts to hang up: bytes already written are delivered if that goes quickly.
    pub(super) fn finish(&mut self, now: Instant) {
        self.finishing.get_or_insert(now);
    }

    /// Returns true if there is a far end to release the call with.
    pub(super) fn is_through(&self) -> bool {
        !self.over && self.pump.has_session()
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> usize {
        self.pump.session().map_or(0, |session| session.read(into))
    }

    pub(super) fn has_unread(&mut self) -> bool {
        self.pump.session().is_some_and(|session| session.readable() > 0)
    }

    pub(super) fn retrained(&self) -> u32 {
        self.pump.retrained()
    }

    pub(super) fn link_stats(&mut self) -> Option<LinkStats> {
        self.pump.session().and_then(|session| session.link_stats())
    }

    fn announce(&mut self, error_control: ErrorControl) -> Progress {
        if std::mem::replace(&mut self.announced, true) {
            return Progress::Pending;
        }
        let modulation = self.pump.modulation();
        let (transmit_rate, receive_rate) = modulation.rates_of(self.role);
        let compression = self.compressed();
        Progress::Connected(Connection {
            modulation,
            transmit_rate,
            receive_rate,
            error_control,
            compression,
        })
    }

    /// Returns the compression to offer, with the directions named by the calling and the answering
    /// end.
    fn offers(&self) -> Compression {
        let Compressed { sent, received } = self.compression.offers;
        let (from_caller, from_answerer) = match self.role {
            Role::Calling => (sent, received),
            Role::Answering => (received, sent),
        };
        Compression { from_caller, from_answerer, sizes: Sizes::default() }
    }

    /// Returns the directions that the ends agreed to compress.
    fn compressed(&mut self) -> Compressed {
        let agreed = self.pump.session().map_or(Compression::default(), |s| s.compression());
        let Compression { from_caller, from_answerer, .. } = agreed;
        match self.role {
            Role::Calling => Compressed { sent: from_caller, received: from_answerer },
            Role::Answering => Compressed { sent: from_answerer, received: from_caller },
        }
    }

    fn lacks_compression(&mut self) -> bool {
        let CompressionSelection { offers, required } = self.compression;
        required && !self.announced && self.compressed() != offers
    }

    fn end(&mut self) -> Progress {
        self.over = true;
        Progress::Over
    }

    fn farewell(&mut self, now: Instant, since: Instant, all_written: bool) -> Progress {
        let Some(session) = self.pump.session() else { return self.end() };
        let delivered = all_written && session.unacknowledged() == 0;
        match session.outcome() {
            Outcome::Closed(_) => return self.end_after_last_frame(now),
            Outcome::Plain if delivered => return self.end(),
            _ => {}
        }
        if delivered || now.saturating_since(since) >= FLUSH {
            session.release();
            let released = *self.released.get_or_insert(now);
            if now.saturating_since(released) >= FAREWELL {
                return self.end();
            }
        }
        Progress::Pending
    }

    fn end_after_last_frame(&mut self, now: Instant) -> Progress {
        let ended = *self.ended.get_or_insert(now);
        if now.saturating_since(ended) >= LAST_FRAME { self.end() } else { Progress::Pending }
    }
}

/// Returns the start and the fallback that `+ES` selects for this end.
fn selection(role: Role, settings: &Settings) -> (Start, Fallback) {
    let errors = settings.errors;
    let detect = Start::Detect { t400: T400 };
    match (role, errors.request, errors.answerer) {
        (Role::Calling, OriginatorRequest::Buffered, _) => (Start::Plain, Fallback::Allowed),
        (Role::Calling, OriginatorRequest::LapmDirect, _) => (Start::Direct, errors.originator),
        (Role::Calling, OriginatorRequest::LapmDetected, _) => (detect, errors.originator),
        (Role::Answering, _, None) => (Start::Plain, Fallback::Allowed),
        (Role::Answering, _, Some(fallback)) => (detect, fallback),
    }
}
