//! Over the loopback, turned by hand.

mod broken;
mod overload;
mod rig;
mod whole;
