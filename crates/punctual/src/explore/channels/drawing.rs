//! The plots of the sweep over channels.

use punctual_model::channel::Channel;
use punctual_sweep::plot::{Axis, Line, Plot, Shape};

use super::{BLOCKS, Choice, Found, SIZES};

/// Values of P that share a plot, as positions in [`BLOCKS`]. With two lines for each P, more could
/// not be told apart.
const TOGETHER: [[usize; 3]; 2] = [[0, 1, 2], [3, 4, 5]];

/// The name of a line, and its height where it has one.
type Curve = (&'static str, fn(&Found) -> Option<f64>);

/// Returns a plot for each group of [`TOGETHER`], with both `curves` of each P against S.
fn plots(
    choices: &[Choice],
    found: &[Found],
    title: &str,
    description: &str,
    y_title: &str,
    curves: [Curve; 2],
) -> Vec<Plot> {
    let line = |block: usize, (name, height): Curve| Line {
        name: format!("P = {}, {name}", BLOCKS[block]),
        points: choices
            .iter()
            .zip(found)
            .filter(|(choice, _)| choice.block == block)
            .map(|(choice, found)| Some((choice.size as f64, height(found)?)))
            .collect(),
    };
    let plot = |blocks: [usize; 3]| {
        let lines: Vec<Line> =
            blocks.into_iter().flat_map(|block| curves.map(|curve| line(block, curve))).collect();
        let heights =
            || lines.iter().flat_map(|line| line.points.iter().flatten()).map(|(_, y)| *y);
        let (lowest, highest) = (heights().fold(0.0, f64::min), heights().fold(0.0, f64::max));
        let named = blocks.map(|block| BLOCKS[block].to_string()).join(", ");
        Plot {
            title: format!("{title}, P = {named}"),
            description: format!(
                "{description} Against the packet size from 1 to 64 KiB; for each P a line by the proven bound, and \
                 one by the published estimate, which is not safe."
            ),
            x: Axis::of_names("packet size S, KiB", SIZES.map(|kib| kib.to_string()).into()),
            y: Axis::new(y_title, lowest * 1.05, highest * 1.05),
            shape: Shape::Lines(lines),
        }
    };
    TOGETHER.into_iter().map(plot).collect()
}

pub(super) fn slacks(choices: &[Choice], found: &[Found]) -> Vec<Plot> {
    // The numbers are for drawing only.
    let proven = |found: &Found| found.slack.map(|slack| slack as f64 / 1e6);
    let published = |found: &Found| found.slack_by_paper.map(|slack| slack as f64 / 1e6);
    plots(
        choices,
        found,
        "Slack of the declared channels",
        "The slack of the channel that comes nearest to its delay bound, in milliseconds. Below zero the set is \
         refused; a line ends where some channel has no bound.",
        "least slack, ms",
        [("proven", proven), ("published", published)],
    )
}

pub(super) fn copies(choices: &[Choice], found: &[Found], copied: &Channel) -> Vec<Plot> {
    plots(
        choices,
        found,
        &format!("Copies of \"{}\"", copied.name()),
        "How many copies of the channel are in time together.",
        "copies",
        [
            ("proven", |found| Some(found.copies as f64)),
            ("published", |found| Some(found.copies_by_paper as f64)),
        ],
    )
}
