//! Sockets between network namespaces, over IPv4 and IPv6 alike.

mod discarded;
mod disturbed;
mod pair;
mod probed;
mod shaped;
mod stamped;
mod trains;
