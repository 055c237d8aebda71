//! A channel server that receives, between network namespaces: what comes, what is lost and to which
//! cause, and that nobody loses by what others do.

mod alone;
mod flood;
mod host;
mod whole;
