//! A request for a channel, and its form on the socket.

use std::fmt;
use std::net::SocketAddr;

use punctual_channel::client::compact::Compact;
use punctual_model::Duration;
use punctual_model::channel::{
    Channel, Direction, Framing, LinearBounded, Policing, Sensitivity, TooEarly,
};
use punctual_ring::frames::Geometry;
use serde::{Deserialize, Serialize};

use super::{Malformed, malformed, named};

/// The most messages that a queue between client and server holds.
pub const MAX_SLOTS: u32 = 1_024;

/// The most bytes of the messages of one queue.
pub const MAX_QUEUE: u64 = 64 << 20;

/// A valid request for a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedChannel {
    /// The name, for people: at most [`super::MAX_NAME`] bytes.
    pub name: String,
    /// The direction, seen from the client.
    pub direction: Direction,
    /// The traffic. For best effort the rate is the most that is wanted.
    pub arrivals: LinearBounded,
    /// The bound from logical arrival to the end of the transmission; `None` for best effort, which
    /// is promised nothing.
    pub delay_bound: Option<Duration>,
    /// The address to which messages go, or at which they are received.
    pub address: SocketAddr,
    /// The packaging of messages as datagrams.
    pub framing: Framing,
    /// The treatment of messages beyond the burst.
    pub too_early: TooEarly,
    /// The policing of a channel that sends: it decides which messages are early. Credits need the
    /// burst that [`Policing::covering`] returns, or a longer one.
    pub policing: Policing,
    /// The number by which sender and receiver know the channel, in the headers of fragments.
    pub number: u32,
    /// Messages that the queue between client and server holds.
    pub slots: u32,
}

impl WantedChannel {
    /// Returns a channel that sends to `address`, with the defaults for everything else.
    pub fn sending(
        name: impl Into<String>,
        arrivals: LinearBounded,
        delay_bound: Option<Duration>,
        address: SocketAddr,
    ) -> Self {
        Self {
            name: name.into(),
            direction: Direction::Send,
            arrivals,
            delay_bound,
            address,
            framing: Framing::Datagram,
            too_early: TooEarly::Wait,
            policing: Policing::Gcra,
            number: 0,
            slots: slots_for(arrivals),
        }
    }

    /// Returns a channel that sends to `address`, with the traffic that a line of text asked for.
    pub fn of_line(name: impl Into<String>, asked: &Compact, address: SocketAddr) -> Self {
        let bound = Some(asked.delay_bound);
        Self {
            too_early: asked.too_early,
            policing: asked.policing,
            ..Self::sending(name, asked.traffic, bound, address)
        }
    }

    /// Returns a channel that receives messages sent to `address`.
    pub fn receiving(
        name: impl Into<String>,
        arrivals: LinearBounded,
        delay_bound: Option<Duration>,
        address: SocketAddr,
    ) -> Self {
        let direction = Direction::Receive;
        Self { direction, ..Self::sending(name, arrivals, delay_bound, address) }
    }

    /// Returns the same channel, with at most as many messages in each control interval as there
    /// are credits, and with the burst and the queue that this takes.
    ///
    /// ```
    /// use punctual_client::want::WantedChannel;
    /// use punctual_model::Duration;
    /// use punctual_model::channel::{LinearBounded, Sensitivity};
    ///
    /// let arrivals = LinearBounded::fixed(1_400, Duration::from_millis(1), 1)?;
    /// let to = "192.0.2.7:4000".parse().expect("an address");
    /// let want = WantedChannel::sending("video", arrivals, Some(Duration::from_millis(5)), to);
    /// let want = want.with_credits(Sensitivity::Usual);
    /// assert_eq!((want.arrivals.max_burst(), want.slots), (20, 64));
    /// # Ok::<(), punctual_model::channel::TrafficError>(())
    /// ```
    #[must_use]
    pub fn with_credits(self, sensitivity: Sensitivity) -> Self {
        let policing = Policing::Credits(sensitivity);
        // A burst of several messages is always covered.
        let arrivals = policing.covering(self.arrivals).unwrap_or(self.arrivals);
        Self { arrivals, policing, slots: self.slots.max(slots_for(arrivals)), ..self }
    }

    /// Returns the channel for admission, or `None` if nothing is to be promised.
    pub fn channel(&self) -> Option<Channel> {
        let delay_bound = self.delay_bound?;
        Channel::new(self.name.clone(), &self.arrivals.into(), delay_bound).ok()
    }

    /// Returns the geometry of the queue between client and server.
    pub fn geometry(&self) -> Geometry {
        // `TryFrom` has checked it.
        Geometry::new(self.slots, self.arrivals.max_message())
            .unwrap_or_else(|_| unreachable!("a queue of {} messages was checked", self.slots))
    }
}

/// Returns the slots for two bursts: one being sent, and one being written.
fn slots_for(arrivals: LinearBounded) -> u32 {
    arrivals.max_burst().saturating_mul(2).clamp(8, MAX_SLOTS / 2).next_power_of_two()
}

impl fmt::Display for WantedChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrivals = self.arrivals;
        let way = match self.direction {
            Direction::Send => "to",
            Direction::Receive => "at",
        };
        write!(
            f,
            "channel \"{}\" {way} {}: {} B every {}",
            self.name,
            self.address,
            arrivals.max_message(),
            arrivals.min_inter_arrival(),
        )?;
        if arrivals.max_burst() > 1 {
            write!(f, ", bursts of {}", arrivals.max_burst())?;
        }
        if let Policing::Credits(sensitivity) = self.policing {
            write!(f, ", by credits for {}", sensitivity.pdus())?;
        }
        match self.delay_bound {
            Some(bound) => write!(f, ", within {bound}"),
            None => f.write_str(", best effort"),
        }
    }
}

/// A request for a channel as it stands in a message, with any numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawChannel {
    /// The name, for people.
    pub name: String,
    /// `send` or `receive`.
    pub direction: String,
    /// The least bytes of a message.
    pub min_message: u32,
    /// The most bytes of a message.
    pub max_message: u32,
    /// The time between two messages, over time.
    pub spacing_ns: u64,
    /// The number of messages at once.
    pub burst: u32,
    /// The delay bound; `None` for best effort.
    pub delay_bound_ns: Option<u64>,
    /// The address, such as `192.0.2.7:4000` or `[2001:db8::7]:4000`.
    pub address: String,
    /// `datagram` or `fragments`.
    pub framing: String,
    /// `wait` or `lose`.
    pub too_early: String,
    /// The sensitivity to jitter, `high`, `medium` or `low`, for policing by interval credits.
    /// `None`: policing by the spacing and the burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<String>,
    /// The number in the headers of fragments.
    #[serde(default)]
    pub number: u32,
    /// The slots of the queue, a power of two.
    pub slots: u32,
}

impl TryFrom<RawChannel> for WantedChannel {
    type Error = Malformed;

    fn try_from(raw: RawChannel) -> Result<Self, Malformed> {
        let RawChannel { min_message, max_message, spacing_ns, burst, slots, number, .. } = raw;
        let name = named("name", raw.name)?;
        let spacing = Duration::from_nanos(spacing_ns);
        let arrivals = LinearBounded::new(min_message, max_message, spacing, burst)
            .map_err(|why| malformed("traffic", why))?;
        let delay_bound = raw.delay_bound_ns.map(Duration::from_nanos);
        if delay_bound.is_some_and(Duration::is_zero) {
            return Err(malformed("delay_bound_ns", "it is zero; it must be at least 1ns"));
        }
        let address: SocketAddr = raw.address.parse().map_err(|_| {
            malformed("address", "it is no address and port, such as 192.0.2.7:4000")
        })?;
        if address.port() == 0 {
            return Err(malformed("address", "its port is 0; it must be from 1 to 65535"));
        }
        if address.ip().is_multicast() {
            // The kernel delivers to the members of a group on this host while the server sends.
            return Err(malformed("address", "it is of a group; channels go to one host"));
        }
        let bytes = u64::from(slots) * u64::from(max_message);
        if slots > MAX_SLOTS || bytes > MAX_QUEUE {
            let problem = format!(
                "{slots} messages of {max_message} bytes; a queue holds at most {MAX_SLOTS}, and \
                 {MAX_QUEUE} bytes"
            );
            return Err(malformed("slots", problem));
        }
        Geometry::new(slots, max_message).map_err(|why| malformed("slots", why))?;
        let direction = choice("direction", &raw.direction, &Direction::NAMES)?;
        let policing = policing(raw.credits.as_deref(), direction, burst)?;
        Ok(Self {
            name,
            direction,
            arrivals,
            delay_bound,
            address,
            framing: choice("framing", &raw.framing, &Framing::NAMES)?,
            too_early: choice("too_early", &raw.too_early, &TooEarly::NAMES)?,
            policing,
            number,
            slots,
        })
    }
}

impl From<&WantedChannel> for RawChannel {
    fn from(want: &WantedChannel) -> Self {
        let arrivals = want.arrivals;
        Self {
            name: want.name.clone(),
            direction: name_of(want.direction, &Direction::NAMES),
            min_message: arrivals.min_message(),
            max_message: arrivals.max_message(),
            spacing_ns: arrivals.min_inter_arrival().as_nanos(),
            burst: arrivals.max_burst(),
            delay_bound_ns: want.delay_bound.map(Duration::as_nanos),
            address: want.address.to_string(),
            framing: name_of(want.framing, &Framing::NAMES),
            too_early: name_of(want.too_early, &TooEarly::NAMES),
            credits: match want.policing {
                Policing::Gcra => None,
                Policing::Credits(sensitivity) => Some(name_of(sensitivity, &Sensitivity::NAMES)),
            },
            number: want.number,
            slots: want.slots,
        }
    }
}

fn policing(
    credits: Option<&str>,
    direction: Direction,
    burst: u32,
) -> Result<Policing, Malformed> {
    let Some(text) = credits else { return Ok(Policing::Gcra) };
    let sensitivity = choice("credits", text, &Sensitivity::NAMES)?;
    if direction == Direction::Receive {
        let why = "what comes in has been bunched on its way, and is policed by spacing and burst";
        return Err(malformed("credits", why));
    }
    let least = sensitivity.largest_burst();
    if burst < least {
        let (pdus, why) = (sensitivity.pdus(), "may pass at once at the border of two intervals");
        return Err(malformed("burst", format!("it is {burst}; twice {pdus} messages {why}")));
    }
    Ok(Policing::Credits(sensitivity))
}

fn choice<T: Copy>(field: &str, text: &str, names: &[(&'static str, T)]) -> Result<T, Malformed> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        malformed(field, format!("it is none of {names:?}"))
    })
}

fn name_of<T: PartialEq>(choice: T, names: &[(&'static str, T)]) -> String {
    names.iter().find(|(_, known)| *known == choice).map_or("", |(name, _)| name).into()
}

#[cfg(test)]
mod tests;
