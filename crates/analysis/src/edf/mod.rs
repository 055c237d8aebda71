//! Earliest deadline first.
//!
//! [`demand`] decides whether every deadline is met, [`density`] does so at the price of one sum
//! where there is much room; [`response_time`] says how long each task can take, whether in time or
//! not.

mod deadline_points;
pub mod demand;
mod density;
pub mod response_time;
#[cfg(test)]
mod tests;
mod window;

pub use density::density;
