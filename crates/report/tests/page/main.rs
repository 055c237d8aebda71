//! Tests the page of a trace, as text and in a real browser if there is one.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod browser;
mod in_a_browser;
mod made;
mod text;
