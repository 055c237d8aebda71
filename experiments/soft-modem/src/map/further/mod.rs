//! The study's future work (§7): several modems on one driver, a modem and an audio player each
//! reserved, two CPUs.

mod callbacks;
mod several;
mod together;

pub use callbacks::callbacks;
pub use several::Several;
pub use together::together;
