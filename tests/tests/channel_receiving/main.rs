//! A channel server that receives between network namespaces: what arrives, what is lost and by
//! which cause, and that no channel loses messages because of another.

mod alone;
mod flood;
mod host;
mod whole;
