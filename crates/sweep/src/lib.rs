//! What a sweep over many questions needs: every CPU on the list of them, and what was found as
//! tables, plots and one page.
//!
//! - [`workers`]: threads with a progress bar; the same answers however many there are.
//! - [`sheet`]: a table for the terminal, CSV and JSON.
//! - [`plot`]: lines, bars, and planes of cells, as SVG.
//! - [`page`]: one HTML page with everything in it: no script, nothing to fetch.

pub mod page;
pub mod plot;
pub mod sheet;
pub mod workers;
