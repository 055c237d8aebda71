//! The state of a link, the reason why it ended, and its counters.

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Negotiating and setting up the connection.
    Establishing,
    /// Bytes flow.
    Connected,
    /// This end has requested the end.
    Releasing,
    /// Over. Bytes that have arrived can still be read.
    Closed(Closed),
}

/// The reason why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This end ended it, and the far end agreed or did not answer.
    #[error("error control ended as asked")]
    Released,
    /// The far end ended it.
    #[error("the far end ended error control")]
    ByPeer,
    /// The far end refused the connection.
    #[error("the far end refused error control")]
    Refused,
    /// The far end never answered.
    #[error("the far end did not answer with error control")]
    NoPeer,
    /// The far end has answered, and no longer does.
    #[error("the far end no longer answers: the line is lost")]
    LineLost,
    /// The far end began again in the middle, so it is unknown which bytes arrived.
    #[error("the far end began error control again in the middle")]
    PeerReset,
    /// The far end acknowledged frames that were not sent.
    #[error("the far end broke the rules of error control")]
    ProtocolError,
}

/// The counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// I frames sent, including repetitions.
    pub frames_sent: u64,
    /// I frames sent again.
    pub frames_repeated: u64,
    /// I frames received in order.
    pub frames_received: u64,
    /// I frames discarded because another was expected.
    pub out_of_order: u64,
    /// I frames discarded for want of room: the far end ignored RNR.
    pub no_room: u64,
    /// Frames that could not be parsed or had no meaning in the state of the link.
    pub not_understood: u64,
    /// Times that T401 ran out.
    pub timeouts: u64,
}

/// The steps of [`LinkState`] in detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The calling end sent XID.
    Negotiating,
    /// The calling end sent SABME.
    Beginning,
    /// The answering end waits for XID or SABME.
    Awaiting,
    Connected,
    Releasing,
    Closed(Closed),
}

/// An unnumbered response that is due, with its F bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Ua(bool),
    Dm(bool),
    Xid,
}
