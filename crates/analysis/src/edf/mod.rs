//! Earliest deadline first.
//!
//! [`demand`] decides whether every deadline is met. [`density`] decides it by one sum if there is
//! much room. [`response_time`] bounds each task's response time, in time or not.

mod deadline_points;
pub mod demand;
mod density;
pub mod response_time;
#[cfg(test)]
mod tests;
mod window;

pub use density::density;
