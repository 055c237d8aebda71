//! Earliest deadline first.
//!
//! [`demand`] decides whether every deadline is met; [`response_time`] says how long each task can
//! take, whether in time or not.

mod deadline_points;
pub mod demand;
pub mod response_time;
#[cfg(test)]
mod tests;
mod window;
