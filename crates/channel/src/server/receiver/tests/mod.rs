//! Tests over the loopback, driven step by step.

mod broken;
mod overload;
mod rig;
mod whole;
