//! A channel's direction, address and framing, and the handling of its early messages.

use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;

use thiserror::Error;

use super::policing::Policing;

/// The direction of a channel's messages, seen from this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Outgoing, over the channel's link.
    #[default]
    Send,
    /// Incoming.
    Receive,
}

impl Direction {
    /// Both directions with their names in a contract.
    pub const NAMES: [(&'static str, Self); 2] = [("send", Self::Send), ("receive", Self::Receive)];
}

/// The mapping of messages to datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each message is one datagram without a header, for peers that do not use Punctual.
    Datagram,
    /// Each packet of a message is a datagram with Punctual's header.
    Fragments,
}

impl Framing {
    /// Both framings with their names in a contract.
    pub const NAMES: [(&'static str, Self); 2] =
        [("datagram", Self::Datagram), ("fragments", Self::Fragments)];

    /// Returns the default of a contract: datagrams if every message fits in one packet.
    pub fn of(max_message: u32, packet_bytes: u32) -> Self {
        if max_message <= packet_bytes { Self::Datagram } else { Self::Fragments }
    }

    /// Returns the number of datagrams of a message of `bytes` in packets of `packet_bytes`, at
    /// least one.
    pub fn datagrams_of(self, bytes: u32, packet_bytes: u32) -> u32 {
        match self {
            Self::Datagram => 1,
            Self::Fragments => bytes.div_ceil(packet_bytes.max(1)).max(1),
        }
    }
}

/// The handling of a message that comes earlier than its contract allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TooEarly {
    /// The message waits until its contract allows it.
    #[default]
    Wait,
    /// The message is discarded and counted.
    Discard,
}

impl TooEarly {
    /// Both choices with their names in a contract.
    pub const NAMES: [(&'static str, Self); 2] = [("wait", Self::Wait), ("lose", Self::Discard)];
}

/// The direction, address and framing of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The channel's name.
    pub channel: String,
    /// The direction.
    pub direction: Direction,
    /// The destination of messages, or the address on which they are received. `None`: known
    /// elsewhere, or none.
    pub address: Option<HostPort>,
    /// The mapping of messages to datagrams.
    pub framing: Framing,
    /// The handling of early messages, for a channel that sends.
    pub too_early: TooEarly,
    /// The rule that decides which messages are early, for a channel that sends.
    pub policing: Policing,
}

/// A host and a port in the usual notation: `192.0.2.7:4000`, `[2001:db8::7]:4000`,
/// `studio.example:4000`.
///
/// ```
/// use punctual_model::channel::HostPort;
///
/// let address: HostPort = "[2001:db8::7]:4000".parse()?;
/// assert_eq!(address.port(), 4000);
/// assert_eq!(address.to_string(), "[2001:db8::7]:4000");
/// assert!("2001:db8::7:4000".parse::<HostPort>().is_err());
/// # Ok::<(), punctual_model::channel::HostPortError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    host: Host,
    port: u16,
}

/// An address, or a name to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An IP address.
    Address(IpAddr),
    /// A name of letters, digits, hyphens and dots.
    Name(String),
}

/// The reason that text is not a host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HostPortError {
    /// There is no colon, or no text after the last one.
    #[error("has no port; write host:port, such as 192.0.2.7:4000")]
    NoPort,
    /// The port is not from 1 to 65535.
    #[error("has no port from 1 to 65535 after its last colon")]
    Port,
    /// An IPv6 address without brackets, whose end could be a port.
    #[error("looks like an IPv6 address without brackets; write [2001:db8::7]:4000")]
    NoBrackets,
    /// The text in brackets is not an IPv6 address.
    #[error("has no IPv6 address in its brackets; write [2001:db8::7]:4000")]
    NotV6,
    /// The host is neither an address nor a name.
    #[error(
        "has no host before its port; write an IPv4 address, an IPv6 address in brackets, or a \
         name of letters, digits, hyphens and dots"
    )]
    Host,
}

impl HostPort {
    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the port, which is not 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(HostPortError::NoBrackets);
        }
        let (host, port) = text.rsplit_once(':').ok_or(HostPortError::NoPort)?;
        if port.is_empty() || port.ends_with(']') {
            return Err(HostPortError::NoPort);
        }
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port =
            port.parse().ok().filter(|port| digits && *port > 0).ok_or(HostPortError::Port)?;
        Ok(Self { host: host.parse()?, port })
    }
}

impl FromStr for Host {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        if let Some(inside) = text.strip_prefix('[') {
            let inside = inside.strip_suffix(']').ok_or(HostPortError::NotV6)?;
            let address = inside.parse().map_err(|_| HostPortError::NotV6)?;
            return Ok(Self::Address(IpAddr::V6(address)));
        }
        if text.contains(':') {
            return Err(HostPortError::NoBrackets);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        // As in RFC 1123, section 2.1. A last label that has only digits would be a mistyped
        // address.
        let of_a_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(of_a_label)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let last = text.rsplit('.').next().unwrap_or(text);
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        if text.len() > 253 || is_number || !text.split('.').all(is_label) {
            return Err(HostPortError::Host);
        }
        Ok(Self::Name(text.to_string()))
    }
}

/// Writes a text that parses to the same value.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for text in ["192.0.2.7:4000", "[2001:db8::7]:1", "[::]:65535", "a-1.example:80", "host:9"]
        {
            let parsed: HostPort = text.parse().expect(text);
            assert_eq!(parsed.to_string(), text);
        }
        let name: HostPort = "4u.example:9".parse().expect("a name");
        assert_eq!(name.host(), &Host::Name("4u.example".into()));
    }

    #[test]
    fn a_bad_address_is_refused_with_the_reason() {
        for (text, why) in [
            ("", HostPortError::NoPort),
            ("host", HostPortError::NoPort),
            ("host:", HostPortError::NoPort),
            ("[::1]", HostPortError::NoPort),
            ("host:0", HostPortError::Port),
            ("host:65536", HostPortError::Port),
            ("host:+1", HostPortError::Port),
            ("host:http", HostPortError::Port),
            ("2001:db8::7", HostPortError::NoBrackets),
            ("2001:db8:0:0:0:0:0:0:7:4000", HostPortError::NoBrackets),
            ("[192.0.2.7]:1", HostPortError::NotV6),
            ("[::1:1", HostPortError::NotV6),
            ("[fe80::1%eth0]:1", HostPortError::NotV6),
            (":4000", HostPortError::Host),
            ("192.0.2:4000", HostPortError::Host),
            ("192.0.2.256:4000", HostPortError::Host),
            ("-a.example:1", HostPortError::Host),
            ("a..b:1", HostPortError::Host),
            ("a b:1", HostPortError::Host),
            ("a\u{1b}:1", HostPortError::Host),
        ] {
            assert_eq!(text.parse::<HostPort>(), Err(why), "{text}");
        }
    }
}
