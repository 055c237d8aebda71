//! The third sweep: the number of channels against packet size S and packets between preemption
//! points P.

use punctual_analysis::Steps;
use punctual_analysis::channel::egress::Egress;
use punctual_analysis::channel::{DelayBound, deadline_monotonic, paper};
use punctual_model::channel::{Channel, Packetisation, SendCosts, Sender, SenderSpec};
use punctual_model::{Duration, Service};
use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Line, Plot, Shape};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

/// Packet sizes, in KiB.
const SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Packets between preemption points.
const BLOCKS: [u32; 6] = [1, 2, 3, 4, 6, 8];

/// The most copies that are counted.
const MOST_COPIES: usize = 1024;

/// A sender with one choice of S and P.
struct Choice {
    size: usize,
    block: usize,
    egress: Egress,
    /// The same sender for the published estimate, with link scheduling as a function call (O1).
    sender: Sender,
}

impl Choice {
    /// Returns the proven delay of each of `ranked`, the most urgent first.
    fn delays(&self, ranked: &[Channel]) -> Vec<DelayBound> {
        self.egress.delays(ranked, &[], &mut Steps::default(), &mut Steps::default())
    }

    /// Returns whether all of `ranked` are proven to be in time.
    fn fits(&self, ranked: &[Channel]) -> bool {
        self.egress.all_in_time(ranked, &[], &mut Steps::default())
    }
}

/// The results for one choice.
struct Found {
    admitted: bool,
    slack: Option<i64>,
    slack_by_paper: Option<i64>,
    copies: usize,
    copies_by_paper: usize,
}

/// The sending server.
pub(super) struct Server<'a> {
    pub(super) spec: &'a SenderSpec,
    pub(super) costs: SendCosts,
    /// The longest delay of its thread's wake-up.
    pub(super) wake_up: Service,
}

/// Runs the sweep. `channels` is not empty; `copied` is the channel of which copies are counted.
pub(super) fn explore(
    server: &Server<'_>,
    channels: &[Channel],
    copied: &Channel,
    workers: &Workers,
) -> Section {
    let order = deadline_monotonic(channels);
    let ranked: Vec<Channel> = order.iter().map(|&at| channels[at].clone()).collect();
    let choices = choices(server);
    let found = workers.map("channels", &choices, |choice| {
        let by_paper = |set: &[Channel]| paper::delays(&choice.sender, set, &mut Steps::default());
        Found {
            admitted: choice.fits(&ranked),
            slack: least_slack(&choice.delays(&ranked), &ranked),
            slack_by_paper: least_slack(&by_paper(&ranked), &ranked),
            copies: most(copied, |set| choice.fits(set)),
            copies_by_paper: most(copied, |set| in_time(&by_paper(set), set)),
        }
    });
    Section {
        title: "Channels, packet size and preemption grain".into(),
        about: vec![
            format!(
                "The sender as declared ({}), with other packet sizes S and other numbers P of \
                 packets handed over as one. Sweeps is proven is proven of the channel server, which is what is \
                 admitted and what runs. Beside it stands what the study of real-time channels published for its \
                 own host, with the same costs; it is not safe.",
                declared_choice(server.spec)
            ),
            "The channels have the processor to themselves here: tasks and reservations of the \
             contract are not counted."
                .into(),
        ],
        summary: summary(&choices, &found, copied),
        plots: Vec::new(),
        parts: vec![
            Part {
                title: "The declared channels".into(),
                plots: plots_of_slack(&choices, &found),
                sheet: slacks(&choices, &found),
            },
            Part {
                title: "Copies of one channel".into(),
                plots: plots_of_copies(&choices, &found, copied),
                sheet: copies(&choices, &found),
            },
        ],
    }
}

fn choices(server: &Server<'_>) -> Vec<Choice> {
    let Server { spec, costs, wake_up } = *server;
    let choice = |block: usize, size: usize| {
        let packetisation =
            Packetisation::new(SIZES[size] * 1024, BLOCKS[block]).expect("neither is zero");
        let spec = SenderSpec { packetisation, costs: Some(costs), ..*spec };
        let egress = Egress::of(&spec, costs, wake_up).expect("as declared");
        Choice { size, block, egress, sender: spec.sender(None).expect("with costs") }
    };
    let sizes = |block| (0..SIZES.len()).map(move |size| (block, size));
    (0..BLOCKS.len()).flat_map(sizes).map(|(block, size)| choice(block, size)).collect()
}

fn declared_choice(spec: &SenderSpec) -> String {
    let cut = spec.packetisation;
    format!("S = {} bytes, P = {}", cut.packet_bytes(), cut.packets_per_block())
}

/// Returns the smallest slack of a channel before its delay bound. `None` if some channel has no
/// bound.
fn least_slack(delays: &[DelayBound], channels: &[Channel]) -> Option<i64> {
    let slack = |(delay, channel): (&DelayBound, &Channel)| {
        let nanos = |duration: Duration| i128::from(duration.as_nanos());
        i64::try_from(nanos(channel.delay_bound()) - nanos(delay.bound()?)).ok()
    };
    let slacks: Option<Vec<i64>> = delays.iter().zip(channels).map(slack).collect();
    slacks?.into_iter().min()
}

fn in_time(delays: &[DelayBound], channels: &[Channel]) -> bool {
    least_slack(delays, channels).is_some_and(|slack| slack >= 0)
}

/// Returns the most copies of `channel` that fit together.
///
/// One more channel never makes a bound smaller, so this doubles and then bisects.
fn most(channel: &Channel, fit: impl Fn(&[Channel]) -> bool) -> usize {
    let copies = vec![channel.clone(); MOST_COPIES];
    let fits = |count: usize| fit(&copies[..count]);
    // `low` copies fit, and `high` copies do not.
    let (mut low, mut high) = (0, 1);
    while high <= MOST_COPIES && fits(high) {
        (low, high) = (high, high * 2);
    }
    high = high.min(MOST_COPIES + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn summary(choices: &[Choice], found: &[Found], copied: &Channel) -> Sheet {
    let both = || choices.iter().zip(found);
    // Of equal choices the first: the smallest P, then the smallest S.
    let slackest = both()
        .filter(|(_, found)| found.slack.is_some())
        .reduce(|best, other| if other.1.slack > best.1.slack { other } else { best });
    let fullest =
        both().reduce(|best, other| if other.1.copies > best.1.copies { other } else { best });
    let at = |found: Option<(&Choice, &Found)>| {
        found.map_or_else(String::new, |(choice, _)| {
            format!("{} KiB, P = {}", SIZES[choice.size], BLOCKS[choice.block])
        })
    };
    let row = vec![
        Value::Count(found.iter().filter(|found| found.admitted).count()),
        Value::Count(found.len()),
        Value::Slack(slackest.and_then(|(_, found)| found.slack)),
        Value::Text(at(slackest)),
        Value::Text(copied.name().into()),
        Value::Count(fullest.map_or(0, |(_, found)| found.copies)),
        Value::Count(fullest.map_or(0, |(_, found)| found.copies_by_paper)),
        Value::Text(at(fullest)),
    ];
    Sheet {
        name: "channels",
        columns: &[
            ("choices_admitted", "S, P that admit"),
            ("choices", "of"),
            ("most_slack_ns", "most slack"),
            ("most_slack_at", "at"),
            ("copies_of", "copies of"),
            ("most_copies", "most, proven"),
            ("most_copies_by_paper", "paper"),
            ("most_copies_at", "at"),
        ],
        rows: vec![row],
    }
}

/// Returns the cells that name the choice of a row.
fn choice_cells(choice: &Choice) -> Vec<Value> {
    vec![
        Value::Count(choice.sender.packetisation.packet_bytes() as usize),
        Value::Count(choice.sender.packetisation.packets_per_block() as usize),
    ]
}

fn slacks(choices: &[Choice], found: &[Found]) -> Sheet {
    let row = |(choice, found): (&Choice, &Found)| {
        let mut row = choice_cells(choice);
        row.push(Value::Flag(found.admitted));
        row.extend([Value::Slack(found.slack), Value::Slack(found.slack_by_paper)]);
        row
    };
    Sheet {
        name: "channel-slack",
        columns: &[
            ("packet_bytes", "S, bytes"),
            ("packets_per_block", "P"),
            ("admitted", "admitted"),
            ("slack_ns", "least slack"),
            ("slack_by_paper_ns", "by the paper"),
        ],
        rows: choices.iter().zip(found).map(row).collect(),
    }
}

fn copies(choices: &[Choice], found: &[Found]) -> Sheet {
    let row = |(choice, found): (&Choice, &Found)| {
        let mut row = choice_cells(choice);
        row.extend([Value::Count(found.copies), Value::Count(found.copies_by_paper)]);
        row
    };
    Sheet {
        name: "channel-copies",
        columns: &[
            ("packet_bytes", "S, bytes"),
            ("packets_per_block", "P"),
            ("copies", "copies, proven"),
            ("copies_by_paper", "by the paper"),
        ],
        rows: choices.iter().zip(found).map(row).collect(),
    }
}

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

fn plots_of_slack(choices: &[Choice], found: &[Found]) -> Vec<Plot> {
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

fn plots_of_copies(choices: &[Choice], found: &[Found], copied: &Channel) -> Vec<Plot> {
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
