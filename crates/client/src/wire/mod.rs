//! The messages, and their transport.
//!
//! A `SOCK_SEQPACKET` Unix socket keeps the borders of messages, so no message has a length field
//! that could lie, and none arrives in halves. Each message is one JSON object of at most
//! [`MAX_MESSAGE`] bytes: it can be typed by hand (`socat -
//! UNIX-CONNECT:/run/punctual/broker.sock,type=5`), and nothing that a client does often goes
//! through it. Unknown fields from a client are refused; those from the broker are skipped, so that
//! a client outlives an update of the broker.
//!
//! A client speaks first, `{"id":1,"ask":{"hello":{"version":1}}}`; every [`ClientMessage`] has one
//! [`Answer`] with the same `id`. [`Event`]s come in between, unasked.

mod channels;
mod message;
mod socket;
mod status;

pub use channels::{
    ChannelStatus, ChannelTotals, ChannelsStatus, Counts, OfferedChannel, Opened, RefusedChannel,
};
pub use message::{
    Answer, BrokerMessage, ClientMessage, Envelope, Event, Holder, Offered, Refused,
};
pub use socket::{Listener, MAX_MESSAGE, Name, ReceiveError, Received, Socket};
pub use status::{GrantStatus, GuardStatus, RefusedStatus, Status, Totals};

/// The protocol version of this crate.
pub const VERSION: u32 = 1;

/// The test named in a [`Refused`] when the kernel has no bandwidth at this moment.
pub const KERNEL: &str = "kernel";

/// Parses a client's message; the error says where and what is wrong.
pub fn parse_ask(bytes: &[u8]) -> Result<Envelope, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Parses the broker's message.
pub fn parse_said(bytes: &[u8]) -> Result<BrokerMessage, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Encodes a message, or returns `None` if it would be longer than [`MAX_MESSAGE`].
pub fn to_bytes(message: &impl serde::Serialize) -> Option<Vec<u8>> {
    // Cannot fail: no map with keys that are not text.
    let bytes = serde_json::to_vec(message).ok()?;
    (bytes.len() <= MAX_MESSAGE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::want::RawWant;

    #[test]
    fn the_form_of_a_message_is_as_documented() {
        let hello = parse_ask(br#"{"id":1,"ask":{"hello":{"version":1}}}"#).expect("documented");
        assert_eq!(
            hello,
            Envelope { id: 1, ask: ClientMessage::Hello { version: VERSION, holder: None } }
        );
        assert_eq!(to_bytes(&hello).expect("short"), br#"{"id":1,"ask":{"hello":{"version":1}}}"#);
        let text = br#"{"id":1,"ask":{"hello":{"version":1,"holder":{"pid":4711,"start":99}}}}"#;
        let holder = Some(Holder { pid: 4_711, start: 99 });
        let ask = ClientMessage::Hello { version: VERSION, holder };
        assert_eq!(parse_ask(text).expect("documented"), Envelope { id: 1, ask });
        let text = br#"{"id":2,"ask":{"request":{"want":{"reservation":{"thread":7,"budget_ns":2000000,"period_ns":8000000}}}}}"#;
        let want = RawWant::Reservation { thread: 7, budget_ns: 2_000_000, period_ns: 8_000_000 };
        let envelope = Envelope { id: 2, ask: ClientMessage::Request { want } };
        assert_eq!(parse_ask(text).expect("documented"), envelope);
        assert_eq!(to_bytes(&envelope).expect("short"), text);
    }

    #[test]
    fn rubbish_is_refused_with_its_place() {
        for text in ["", "{", "{\"id\":1}", r#"{"id":1,"ask":"ping","more":1}"#, "\u{0}\u{1}"] {
            let error = parse_ask(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains("line") || error.contains("EOF"), "{error}");
        }
    }

    #[test]
    fn additions_of_a_later_broker_are_skipped() {
        let text = r#"{"event":{"grant":7,"event":{"revoked":{"why":"so","more":1}}}}"#;
        let revoked = Event::Revoked { why: "so".into() };
        let said = |event| BrokerMessage::Event { grant: Some(crate::grant::GrantId(7)), event };
        assert_eq!(parse_said(text.as_bytes()).expect("later"), said(revoked));
        for unknown in [r#"{"cooler":{"by":1}}"#, r#""cooler""#] {
            let text = format!(r#"{{"event":{{"grant":7,"event":{unknown}}}}}"#);
            let value = serde_json::from_str(unknown).expect("valid");
            assert_eq!(parse_said(text.as_bytes()).expect("later"), said(Event::Unknown(value)));
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_not_written() {
        assert_eq!(to_bytes(&"x".repeat(MAX_MESSAGE)), None);
    }
}
