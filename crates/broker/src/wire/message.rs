//! What is said on the socket.

use serde::{Deserialize, Serialize};

use super::channels::{ChannelsStatus, Opened, RefusedChannel};
use super::status::Status;
use crate::grant::{GrantId, Token};
use crate::want::{RawChannel, RawWant};

/// A client's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Comes back with the answer.
    pub id: u32,
    /// What is asked.
    pub ask: Ask,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// The first message of a connection.
    Hello {
        /// [`super::VERSION`].
        version: u32,
    },
    /// Nothing; answered with [`Answer::Pong`].
    Ping,
    /// A grant.
    Request {
        /// For what.
        want: RawWant,
    },
    /// Another contract in place of a grant's own. If it is refused the grant stays as it is.
    Change {
        /// Which.
        grant: GrantId,
        /// For the same thread and of the same kind.
        want: RawWant,
    },
    /// A channel. When it is granted, its queue is to be attached.
    OpenChannel {
        /// Which.
        channel: RawChannel,
    },
    /// A queue for a channel, made by the broker and answered with [`Answer::Queue`]. Again after the broker
    /// was replaced. One that was made before and is not attached is dropped for it.
    AttachChannel {
        /// Which.
        grant: GrantId,
        /// The number of the first message that the queue carries: 0 for a new channel, and after the
        /// broker was replaced that of the oldest one that has not left, or was not received.
        first: u64,
    },
    /// The queue of a channel is mapped: it is to be sealed and attached. Answered with
    /// [`Answer::Sealing`] while that takes its time; then it is to be asked again.
    MappedChannel {
        /// Which.
        grant: GrantId,
    },
    /// Another contract in place of a channel's own, with the same direction, address, framing and
    /// queue. If it is refused the channel stays as it is.
    ChangeChannel {
        /// Which.
        grant: GrantId,
        /// For what.
        channel: RawChannel,
    },
    /// The end of a grant or a channel.
    Release {
        /// Which.
        grant: GrantId,
    },
    /// To go on with a grant after a reconnection.
    Resume {
        /// Which.
        grant: GrantId,
        /// As it was told with the grant.
        token: Token,
    },
    /// What is granted: a user's own, or everything to root.
    Status {
        /// Only grants with a greater number: answers come in pages.
        after: Option<GrantId>,
    },
    /// The same of channels, with what was measured.
    Channels {
        /// Only channels with a greater number.
        after: Option<GrantId>,
    },
}

/// The broker's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// To an [`Ask`].
    Answer {
        /// Of the envelope; 0 where it could not be read.
        id: u32,
        /// The answer.
        answer: Answer,
    },
    /// About a grant, without being asked.
    Event {
        /// Which; none where it is about the host.
        grant: Option<GrantId>,
        /// What happened.
        event: Event,
    },
}

/// The broker's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Hello`].
    Welcome {
        /// The version spoken from here on.
        version: u32,
        /// Whether upcall threads may raise themselves to the level at which upcalls run (`RLIMIT_RTPRIO`); else the
        /// broker puts them at the fixed level of their shortest period.
        level_order: bool,
        /// Where the broker may not set limits of others (no CAP_SYS_RESOURCE): the hard
        /// `RLIMIT_RTTIME` in microseconds that a process must set itself before it gets SCHED_FIFO.
        rttime_us: Option<u64>,
    },
    /// To [`Ask::Ping`].
    Pong,
    /// Admitted, written down, and in force.
    Granted {
        /// Its number.
        grant: GrantId,
        /// Proves after a reconnection who holds it.
        token: Token,
        /// The CPU on which upcalls were admitted and to which their thread is pinned.
        cpu: Option<u32>,
    },
    /// A channel was admitted, changed or resumed.
    Opened(Opened),
    /// To [`Ask::AttachChannel`]: a queue, whose four descriptors come with this message, in the order of
    /// `punctual_channel::rings::Passed`: frames, page, bell, doorbell.
    Queue {
        /// Messages that it holds.
        slots: u32,
        /// The longest of them, in bytes.
        max_message: u32,
        /// The number of its first message, as it was asked for.
        first: u64,
    },
    /// To [`Ask::AttachChannel`]: not now. This user has so many bytes of queues, of channels that are closed
    /// too, and a queue more is too much: the channel stays, and is to be attached when some are unmapped and
    /// their descriptors closed.
    Kept {
        /// Of all queues of which this user has anything.
        bytes: u64,
    },
    /// To [`Ask::MappedChannel`]: not yet.
    Sealing,
    /// Its queue is attached: it carries messages.
    Attached,
    /// A channel was not admitted.
    ChannelRefused(RefusedChannel),
    /// To [`Ask::Channels`].
    Channels(ChannelsStatus),
    /// Not admitted.
    Refused(Refused),
    /// The grant is over.
    Released,
    /// To [`Ask::Status`].
    Status(Status),
    /// The request could not be understood or carried out.
    Error {
        /// One sentence that says what to do.
        problem: String,
    },
}

/// Why not, and what would be admitted at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused by the {test} test: {why}{}", offers_text(.offers))]
pub struct Refused {
    /// Such as `quota`, `response-time` or `reservable-bandwidth`.
    pub test: String,
    /// One clause with the numbers.
    pub why: String,
    /// By how much it does not fit, in parts per million of a CPU; none where no number says it.
    pub short_ppm: Option<u64>,
    /// Whole requests, each of which was admitted before it was offered.
    pub offers: Vec<Offered>,
}

/// A counter-offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// What is other than in the request.
    pub change: String,
    /// To ask for as it is.
    pub want: RawWant,
}

fn offers_text(offers: &[Offered]) -> String {
    match offers {
        [] => "; no smaller request was found that would fit".into(),
        offers => {
            let changes: Vec<&str> = offers.iter().map(|offer| offer.change.as_str()).collect();
            format!("; it would be admitted with {}", changes.join(", or "))
        }
    }
}

/// What a client is told about its grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The use nears what was granted.
    NearLimit {
        /// Of a CPU, over the last second or more.
        used_ppm: u64,
        /// Of a CPU.
        granted_ppm: u64,
    },
    /// More was used than granted. What is owed must be paid back by using less, or the grant ends.
    Broken {
        /// Of a CPU, over the last second or less.
        used_ppm: u64,
        /// Of a CPU.
        granted_ppm: u64,
        /// Processor time that was used beyond what may be used ahead.
        owed_ns: u64,
        /// Owing more than that ends the grant,
        most_ns: u64,
        /// and so does not having paid back by then.
        within_ms: u64,
    },
    /// The grant was taken away; nothing of it is in force any more.
    Revoked {
        /// One sentence.
        why: String,
    },
    /// The host got tighter: this much must be given back, or the newest grants are revoked.
    Choose {
        /// Of a CPU, by the holder's user.
        must_free_ppm: u64,
        /// Until then.
        within_ms: u64,
        /// What could be asked for in place of the grant.
        offers: Vec<Offered>,
    },
    /// Nothing more of the channel is carried: its queue makes no sense, or its bell rings for nothing.
    /// It is over.
    ChannelEnded {
        /// One sentence.
        why: String,
    },
    /// Something was given back since a request of this client was refused.
    MoreAvailable {
        /// Of all CPUs together, left for promises.
        ppm: u64,
    },
    /// What a broker of a later version says and this one cannot read, as it came.
    #[serde(untagged)]
    Unknown(serde_json::Value),
}
