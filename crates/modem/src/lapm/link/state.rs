//! Where a link is, why it ended, and what it did.

/// Where a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Agreeing, and beginning.
    Establishing,
    /// Bytes flow.
    Connected,
    /// This end asked for the end.
    Releasing,
    /// Over. What had arrived can still be read.
    Closed(Closed),
}

/// Why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This end asked for it, and the far end agreed or did not answer.
    #[error("error control ended as asked")]
    Released,
    /// The far end ended it.
    #[error("the far end ended error control")]
    ByPeer,
    /// The far end does not want to begin.
    #[error("the far end refused error control")]
    Refused,
    /// It never answered.
    #[error("the far end did not answer with error control")]
    NoPeer,
    /// It answered once and does so no longer.
    #[error("the far end no longer answers: the line is lost")]
    LineLost,
    /// It began again in the middle, so that nobody knows what arrived.
    #[error("the far end began error control again in the middle")]
    PeerReset,
    /// It acknowledged what was not sent.
    #[error("the far end broke the rules of error control")]
    ProtocolError,
}

/// What a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// I frames sent, again or for the first time.
    pub frames_sent: u64,
    /// I frames sent again.
    pub frames_repeated: u64,
    /// I frames received in order.
    pub frames_received: u64,
    /// I frames discarded because another was awaited.
    pub out_of_order: u64,
    /// I frames discarded for want of room: the far end ignored RNR.
    pub no_room: u64,
    /// Frames that meant nothing.
    pub not_understood: u64,
    /// Times that T401 ran out.
    pub timeouts: u64,
}

/// Steps of [`LinkState::Establishing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The calling end sent XID.
    Negotiating,
    /// The calling end sent SABME.
    Beginning,
    /// The answering end waits for either.
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
