//! A JSON document as it was written: with the order and the repetitions of its keys, and with the
//! place of each key and value.

use alloc::string::String;
use alloc::vec::Vec;

/// A value and the byte offset where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) offset: usize,
    pub(super) value: Value,
}

/// A JSON value, with two extensions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A whole number without exponent that fits.
    Int(i64),
    /// Any other number. No key of a workload takes one, so its value is never read.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
    /// The value of a key that stands alone: `"suspend",`.
    Absent,
}

impl Value {
    /// Describes the kind of value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a whole number",
            Self::OtherNumber => "a number that is not whole or too large",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Absent => "nothing",
        }
    }
}

/// One `"key" : value` of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    /// The byte offset where the key begins.
    pub(super) offset: usize,
    pub(super) node: Node,
}

/// Returns the first member called `key`.
pub(super) fn find<'a>(members: &'a [Member], key: &str) -> Option<&'a Member> {
    members.iter().find(|member| member.key == key)
}
