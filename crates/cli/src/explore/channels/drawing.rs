//! The plots of the sweep over channels.

use punctual_model::channel::{Channel, LinkScheduling};
use punctual_sweep::plot::{Axis, Line, Plot, Shape};

use super::{BLOCKS, Choice, Found, OPTIONS, SIZES};

/// A line for each P of one option, against S.
fn lines(
    choices: &[Choice],
    found: &[Found],
    option: usize,
    height: impl Fn(&Found) -> Option<f64>,
) -> Vec<Line> {
    let line = |(block, p): (usize, u32)| Line {
        name: format!("P = {p}"),
        points: choices
            .iter()
            .zip(found)
            .filter(|(choice, _)| choice.option == option && choice.block == block)
            .map(|(choice, found)| Some((choice.size as f64, height(found)?)))
            .collect(),
    };
    BLOCKS.into_iter().enumerate().map(line).collect()
}

fn plot(title: String, description: String, y_title: &str, lines: Vec<Line>) -> Plot {
    let heights = || lines.iter().flat_map(|line| line.points.iter().flatten()).map(|(_, y)| *y);
    let (lowest, highest) = (heights().fold(0.0, f64::min), heights().fold(0.0, f64::max));
    Plot {
        title,
        description,
        x: Axis::of_names("packet size S, KiB", SIZES.map(|kib| kib.to_string()).into()),
        y: Axis::new(y_title, lowest * 1.05, highest * 1.05),
        shape: Shape::Lines(lines),
    }
}

pub(super) fn slacks(choices: &[Choice], found: &[Found]) -> Vec<Plot> {
    let of_option = |(option, (.., name)): (usize, (Option<LinkScheduling>, &str, &str))| {
        // For drawing only.
        let height = |found: &Found| found.slack.map(|slack| slack as f64 / 1e6);
        plot(
            format!("Slack of the declared channels, {name}"),
            "The proven slack of the channel that comes nearest to its delay bound, in \
             milliseconds, against the packet size from 1 to 64 KiB, a line for each P. Below zero \
             the set is refused; a line ends where some channel has no bound."
                .into(),
            "least slack, ms",
            lines(choices, found, option, height),
        )
    };
    OPTIONS.into_iter().enumerate().map(of_option).collect()
}

pub(super) fn copies(choices: &[Choice], found: &[Found], copied: &Channel) -> Vec<Plot> {
    let of_option = |(option, (.., name)): (usize, (Option<LinkScheduling>, &str, &str))| {
        let by = |test: &str, count: fn(&Found) -> usize| {
            plot(
                format!("Copies of \"{}\", {name}, {test}", copied.name()),
                format!(
                    "How many copies of the channel are in time together, {test}, against the \
                     packet size from 1 to 64 KiB, a line for each P."
                ),
                "copies",
                lines(choices, found, option, |found| Some(count(found) as f64)),
            )
        };
        [
            by("by the proven bound", |found| found.copies),
            by("by the published estimate", |found| found.copies_by_paper),
        ]
    };
    OPTIONS.into_iter().enumerate().flat_map(of_option).collect()
}
