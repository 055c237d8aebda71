//! The third sweep: channels against packet size S and packets between preemption points P.

mod drawing;

use punctual_analysis::Steps;
use punctual_analysis::channel::{DelayBound, admit_channels, deadline_monotonic, paper, sound};
use punctual_model::Duration;
use punctual_model::channel::{Channel, LinkScheduling, Packetisation, Sender};
use punctual_sweep::page::{Part, Section};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

/// Packet sizes, in KiB.
const SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Packets between preemption points.
const BLOCKS: [u32; 6] = [1, 2, 3, 4, 6, 8];

/// Where the link scheduler runs, with its name in real-time channels, §3.1.2.
const OPTIONS: [(LinkScheduling, &str, &str); 2] = [
    (LinkScheduling::InInterrupt, "O1", "O1 (link scheduling in interrupts)"),
    (LinkScheduling::InThread, "O2", "O2 (link scheduling in a thread)"),
];

/// No more copies than this are counted.
const MOST_COPIES: usize = 1024;

/// A sender with one choice of S, P and option.
struct Choice {
    option: usize,
    size: usize,
    block: usize,
    sender: Sender,
}

/// What was found for it.
struct Found {
    admitted: bool,
    slack: Option<i64>,
    slack_by_paper: Option<i64>,
    copies: usize,
    copies_by_paper: usize,
}

/// `channels` is not empty; `copied` is the one of which copies are counted.
pub(super) fn explore(
    sender: &Sender,
    channels: &[Channel],
    copied: &Channel,
    workers: &Workers,
) -> Section {
    let order = deadline_monotonic(channels);
    let ranked: Vec<Channel> = order.iter().map(|&at| channels[at].clone()).collect();
    let choices = choices(sender);
    let found = workers.map("channels", &choices, |Choice { sender, .. }| Found {
        admitted: admit_channels(sender, channels, &mut Steps::default()).is_ok(),
        slack: least_slack(&sound::delays(sender, &ranked, &mut Steps::default()), &ranked),
        slack_by_paper: least_slack(
            &paper::delays(sender, &ranked, &mut Steps::default()),
            &ranked,
        ),
        copies: most(copied, |set, steps| sound::delays(sender, set, steps)),
        copies_by_paper: most(copied, |set, steps| paper::delays(sender, set, steps)),
    });
    Section {
        title: "Channels, packet size and preemption grain".into(),
        about: vec![
            format!(
                "The sender as declared ({}), with other packet sizes S and other numbers P of \
                 packets between preemption points, in both options of link scheduling. Admission \
                 uses the proven bound only; the published estimate stands beside it and is not \
                 safe.",
                declared_choice(sender)
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
                plots: drawing::slacks(&choices, &found),
                sheet: slacks(&choices, &found),
            },
            Part {
                title: "Copies of one channel".into(),
                plots: drawing::copies(&choices, &found, copied),
                sheet: copies(&choices, &found),
            },
        ],
    }
}

fn choices(sender: &Sender) -> Vec<Choice> {
    let mut choices = Vec::new();
    for (option, (link_scheduling, ..)) in OPTIONS.into_iter().enumerate() {
        for (block, per_block) in BLOCKS.into_iter().enumerate() {
            for (size, kib) in SIZES.into_iter().enumerate() {
                let packetisation =
                    Packetisation::new(kib * 1024, per_block).expect("neither is zero");
                let sender = Sender { packetisation, link_scheduling, ..*sender };
                choices.push(Choice { option, size, block, sender });
            }
        }
    }
    choices
}

fn declared_choice(sender: &Sender) -> String {
    let cut = sender.packetisation;
    let option = OPTIONS.iter().find(|(option, ..)| *option == sender.link_scheduling);
    let option = option.map_or("", |(_, short, _)| short);
    format!("S = {} bytes, P = {}, {option}", cut.packet_bytes(), cut.packets_per_block())
}

/// How much earlier than its delay bound the channel that comes nearest to it surely is. None if
/// some channel has no bound.
fn least_slack(delays: &[DelayBound], channels: &[Channel]) -> Option<i64> {
    let slack = |(delay, channel): (&DelayBound, &Channel)| {
        let nanos = |duration: Duration| i128::from(duration.as_nanos());
        i64::try_from(nanos(channel.delay_bound()) - nanos(delay.bound()?)).ok()
    };
    let slacks: Option<Vec<i64>> = delays.iter().zip(channels).map(slack).collect();
    slacks?.into_iter().min()
}

/// The most copies of `channel` that `delays` lets be in time together.
///
/// A channel more never makes a bound smaller, so it doubles and then bisects.
fn most(channel: &Channel, delays: impl Fn(&[Channel], &mut Steps) -> Vec<DelayBound>) -> usize {
    let copies = vec![channel.clone(); MOST_COPIES];
    let fits = |count: usize| {
        let set = &copies[..count];
        least_slack(&delays(set, &mut Steps::default()), set).is_some_and(|slack| slack >= 0)
    };
    // `low` copies fit, `high` do not.
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
    let row = |option: usize| {
        let here = || choices.iter().zip(found).filter(move |(choice, _)| choice.option == option);
        // Of equal ones the first: the smallest P, then the smallest S.
        let slackest = here()
            .filter(|(_, found)| found.slack.is_some())
            .reduce(|best, other| if other.1.slack > best.1.slack { other } else { best });
        let fullest =
            here().reduce(|best, other| if other.1.copies > best.1.copies { other } else { best });
        let at = |found: Option<(&Choice, &Found)>| {
            found.map_or_else(String::new, |(choice, _)| {
                format!("{} KiB, P = {}", SIZES[choice.size], BLOCKS[choice.block])
            })
        };
        vec![
            Value::Text(OPTIONS[option].1.into()),
            Value::Count(here().filter(|(_, found)| found.admitted).count()),
            Value::Count(here().count()),
            Value::Slack(slackest.and_then(|(_, found)| found.slack)),
            Value::Text(at(slackest)),
            Value::Text(copied.name().into()),
            Value::Count(fullest.map_or(0, |(_, found)| found.copies)),
            Value::Count(fullest.map_or(0, |(_, found)| found.copies_by_paper)),
            Value::Text(at(fullest)),
        ]
    };
    Sheet {
        name: "channels",
        columns: &[
            ("link_scheduling", "option"),
            ("choices_admitted", "S, P that admit"),
            ("choices", "of"),
            ("most_slack_ns", "most slack"),
            ("most_slack_at", "at"),
            ("copies_of", "copies of"),
            ("most_copies", "most, sound"),
            ("most_copies_by_paper", "paper"),
            ("most_copies_at", "at"),
        ],
        rows: (0..OPTIONS.len()).map(row).collect(),
    }
}

/// The cells that say which choice a row is about.
fn choice_cells(choice: &Choice) -> Vec<Value> {
    vec![
        Value::Text(OPTIONS[choice.option].1.into()),
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
            ("link_scheduling", "option"),
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
            ("link_scheduling", "option"),
            ("packet_bytes", "S, bytes"),
            ("packets_per_block", "P"),
            ("copies", "copies, sound"),
            ("copies_by_paper", "by the paper"),
        ],
        rows: choices.iter().zip(found).map(row).collect(),
    }
}
