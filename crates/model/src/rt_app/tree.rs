//! A JSON document as it was written: keys in order and as often as they stand there, each key and
//! value with its place.

use alloc::string::String;
use alloc::vec::Vec;

/// A value and the byte offset where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) offset: usize,
    pub(super) value: Value,
}

/// What JSON knows, and two things that it does not.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number without fraction or exponent that fits.
    Int(i64),
    /// Any other number. No key of the workloads takes one, so its value is never looked at.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
    /// A key that stands alone: `"suspend",`.
    Absent,
}

impl Value {
    /// What it is, for messages.
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
    /// Where the key begins.
    pub(super) offset: usize,
    pub(super) node: Node,
}

/// The first member called `key`.
pub(super) fn find<'a>(members: &'a [Member], key: &str) -> Option<&'a Member> {
    members.iter().find(|member| member.key == key)
}
