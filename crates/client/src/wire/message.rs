//! The messages on the socket.

use serde::{Deserialize, Serialize};

use super::channels::{ChannelsStatus, Opened, RefusedChannel};
use super::status::Status;
use crate::grant::{GrantId, Token};
use crate::want::{RawChannel, RawWant};

/// A client's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The id that comes back with the answer.
    pub id: u32,
    /// The request.
    pub ask: ClientMessage,
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientMessage {
    /// Opens the conversation: the first message of a connection.
    Hello {
        /// [`super::VERSION`].
        version: u32,
        /// The process for which this connection is to ask; `None`: the one that connected it. Only
        /// root and the broker's own user may ask for another process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<Holder>,
    },
    /// Requests nothing; answered with [`Answer::Pong`].
    Ping,
    /// Requests a grant.
    Request {
        /// The guarantee.
        want: RawWant,
    },
    /// Requests another contract in place of a grant's own. If it is refused the grant stays as it
    /// is.
    Change {
        /// The grant.
        grant: GrantId,
        /// The new guarantee, for the same thread and of the same kind.
        want: RawWant,
    },
    /// Requests a channel. When it is granted, its queue is to be attached.
    OpenChannel {
        /// The channel.
        channel: RawChannel,
    },
    /// Requests a queue for a channel, made by the broker and answered with [`Answer::Queue`];
    /// again after the broker was replaced. An earlier queue that is not attached is dropped for
    /// it.
    AttachChannel {
        /// The channel.
        grant: GrantId,
        /// The number of the first message that the queue carries: 0 for a new channel; after the
        /// broker was replaced, that of the oldest message that was not sent, or not received.
        first: u64,
    },
    /// Reports that the queue of a channel is mapped: the broker is to seal and attach it. While
    /// sealing takes its time the answer is [`Answer::Sealing`]; then the client asks again.
    MappedChannel {
        /// The channel.
        grant: GrantId,
    },
    /// Requests another contract in place of a channel's own, with the same direction, address,
    /// framing and queue. If it is refused the channel stays as it is.
    ChangeChannel {
        /// The channel.
        grant: GrantId,
        /// The new contract.
        channel: RawChannel,
    },
    /// Ends a grant or a channel.
    Release {
        /// The grant or channel.
        grant: GrantId,
    },
    /// Continues a grant after a reconnection.
    Resume {
        /// The grant.
        grant: GrantId,
        /// The token that came with the grant.
        token: Token,
    },
    /// Sets the nice value of a thread of the holder, which is no grant: nothing is promised, admitted
    /// or taken back. Only a connection that names its holder may ask for it.
    Nice {
        /// Kernel id of the thread.
        thread: i32,
        /// From -20 to 19.
        nice: i32,
    },
    /// Requests a list of the grants: a user's own, or everything for root.
    Status {
        /// Only grants with a greater number: answers come in pages.
        after: Option<GrantId>,
    },
    /// Requests a list of the channels, with their measurements.
    Channels {
        /// Only channels with a greater number.
        after: Option<GrantId>,
    },
}

/// A process on whose behalf another one asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Its id, as the broker sees it.
    pub pid: i32,
    /// Its start in clock ticks since the boot (field 22 of /proc/PID/stat), so that no later process
    /// with this id is taken for it.
    pub start: u64,
}

/// The broker's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokerMessage {
    /// The answer to an [`ClientMessage`].
    Answer {
        /// The envelope's id; 0 if it could not be read.
        id: u32,
        /// The answer.
        answer: Answer,
    },
    /// News about a grant that the client did not ask for.
    Event {
        /// The grant; `None` if the event is about the host.
        grant: Option<GrantId>,
        /// The event.
        event: Event,
    },
}

/// The broker's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The answer to [`ClientMessage::Hello`].
    Welcome {
        /// The protocol version from here on.
        version: u32,
        /// Whether upcall threads may raise themselves to the running level of upcalls
        /// (`RLIMIT_RTPRIO`); if not, the broker puts them at the fixed level of their shortest
        /// period.
        level_order: bool,
        /// If the broker may not set limits of other processes (no CAP_SYS_RESOURCE): the hard
        /// `RLIMIT_RTTIME` in microseconds that a process must set itself before it gets
        /// SCHED_FIFO.
        rttime_us: Option<u64>,
        /// Whether this client may ask for [`RawWant::Program`], and the broker can hold programs.
        #[serde(default)]
        programs: bool,
    },
    /// The answer to [`ClientMessage::Ping`].
    Pong,
    /// The grant is admitted, written to the ledger, and in force.
    Granted {
        /// Its number.
        grant: GrantId,
        /// The secret that proves ownership after a reconnection.
        token: Token,
        /// The CPU on which upcalls were admitted and to which their thread is pinned.
        cpu: Option<u32>,
    },
    /// A channel was admitted, changed or resumed.
    Opened(Opened),
    /// The answer to [`ClientMessage::AttachChannel`]: a queue, whose four descriptors come with this
    /// message, in the order of `punctual_channel::rings::Passed`: frames, page, bell, doorbell.
    Queue {
        /// Messages that it holds.
        slots: u32,
        /// The longest of them, in bytes.
        max_message: u32,
        /// The number of its first message, as requested.
        first: u64,
    },
    /// The refusal of [`ClientMessage::AttachChannel`] for now: this user has this many bytes of queues,
    /// including those of closed channels, and another queue would exceed the quota. The channel
    /// stays, and can be attached when the user has unmapped some queues and closed their
    /// descriptors.
    Kept {
        /// The bytes of all queues of which this user still holds anything.
        bytes: u64,
    },
    /// The answer to [`ClientMessage::MappedChannel`] while the queue is not sealed yet.
    Sealing,
    /// Its queue is attached: it carries messages.
    Attached,
    /// A channel was not admitted.
    ChannelRefused(RefusedChannel),
    /// The answer to [`ClientMessage::Channels`].
    Channels(ChannelsStatus),
    /// The request was not admitted.
    Refused(Refused),
    /// The grant is over.
    Released,
    /// The answer to [`ClientMessage::Nice`]: the thread is an ordinary one with that nice value.
    Niced,
    /// The answer to [`ClientMessage::Status`].
    Status(Status),
    /// The request could not be understood or carried out.
    Error {
        /// One sentence that says what to do.
        problem: String,
    },
}

/// The reason of a refusal, and what would be admitted at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused by the {test} test of the broker: {why}{}", offers_text(.offers))]
pub struct Refused {
    /// The failed test, such as `quota`, `response-time` or `reservable-bandwidth`.
    pub test: String,
    /// The reason with the numbers, in one clause.
    pub why: String,
    /// The shortfall in parts per million of a CPU; `None` if no number expresses it.
    pub short_ppm: Option<u64>,
    /// Complete requests, each of which passed admission before it was offered.
    pub offers: Vec<Offered>,
}

/// A counter-offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The difference from the request.
    pub change: String,
    /// The request to send, as it is.
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

/// An event about a client's grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The use nears the grant.
    NearLimit {
        /// The use of a CPU, over the last second or more.
        used_ppm: u64,
        /// The granted share of a CPU.
        granted_ppm: u64,
    },
    /// More was used than granted. The debt must be paid back by using less, or the grant ends.
    Broken {
        /// The use of a CPU, over the last second or less.
        used_ppm: u64,
        /// The granted share of a CPU.
        granted_ppm: u64,
        /// The debt: processor time beyond what may be used ahead.
        owed_ns: u64,
        /// The debt above which the grant ends.
        most_ns: u64,
        /// The time within which the debt must be paid back, or the grant ends.
        within_ms: u64,
    },
    /// The grant was taken away; nothing of it is in force any more.
    Revoked {
        /// The reason, in one sentence.
        why: String,
    },
    /// The grant of a program is over; this is the processor time that it used under it. It does not
    /// come where that is not known.
    Used {
        /// Within its budgets.
        inside_ns: u64,
        /// In all.
        used_ns: u64,
    },
    /// The host can now promise less than is granted: this much must be given back, or the newest
    /// grants are revoked.
    Choose {
        /// The share of a CPU that the holder's user must give back.
        must_free_ppm: u64,
        /// The time within which to do that.
        within_ms: u64,
        /// Requests that would be admitted in place of the grant.
        offers: Vec<Offered>,
    },
    /// The channel is over and carries nothing more: its queue is corrupt, or its bell rings for
    /// nothing.
    ChannelEnded {
        /// The reason, in one sentence.
        why: String,
    },
    /// A grant or a channel was given back since a request of this client was refused.
    MoreAvailable {
        /// The share of all CPUs together that is left for promises.
        ppm: u64,
    },
    /// An event from a later version of the broker that this one cannot read, as it came.
    #[serde(untagged)]
    Unknown(serde_json::Value),
}
