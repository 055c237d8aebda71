//! Runs sweeps over many questions on every CPU, and shows the results as tables, plots and one
//! page.
//!
//! - [`workers`]: threads with a progress bar; the answers do not depend on how many there are.
//! - [`sheet`]: a table for the terminal, CSV and JSON.
//! - [`plot`]: lines, bars, and planes of cells, as SVG.
//! - [`page`]: one self-contained HTML page: no script, nothing to fetch.

pub mod page;
pub mod plot;
pub mod sheet;
pub mod workers;
