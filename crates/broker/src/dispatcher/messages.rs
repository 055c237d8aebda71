//! The messages between the broker and its dispatcher.

use punctual_client::grant::GrantId;
use serde::{Deserialize, Serialize};

use crate::ledger::ProcessId;

/// The broker's orders to the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first order: the time by which budgets end late on this host, in nanoseconds.
    Begin { allowance: u64 },
    /// Hold a program, or hold it to other terms; answered with [`News::Done`].
    Hold(Program),
    /// A grant is over; answered with [`News::Released`] when the program is an ordinary one.
    Release(GrantId),
}

/// A program and its server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) grant: GrantId,
    pub(crate) process: ProcessId,
    /// The user that holds the grant.
    pub(crate) uid: u32,
    /// In nanoseconds.
    pub(crate) budget: u64,
    /// In nanoseconds.
    pub(crate) period: u64,
    /// Whether it is stopped when its budget is used.
    pub(crate) hard: bool,
    /// The kernel's number of the server's CPU.
    pub(crate) cpu: u32,
}

/// The processor time of a program while its grant held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Within its budgets, in nanoseconds.
    pub(crate) inside: u64,
    /// In all, in nanoseconds.
    pub(crate) all: u64,
}

/// The dispatcher's news to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum News {
    /// The answer to [`Order::Begin`]: why no program can be held here, if so. Then the dispatcher
    /// has ended.
    Begun(Result<(), String>),
    /// The answer to [`Order::Hold`].
    Done { grant: GrantId, outcome: Result<(), String> },
    /// The answer to [`Order::Release`].
    Released { grant: GrantId, used: Option<Account> },
    /// The use of each program within its budgets since the last such news, in parts per million of a
    /// CPU.
    Used(Vec<(GrantId, u64)>),
    /// A program broke out, and is an ordinary one now.
    BrokeOut { grant: GrantId, why: String },
}
