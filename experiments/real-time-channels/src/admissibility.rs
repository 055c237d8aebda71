//! Computes how many channels fit (§5, Figures 6 and 7): by the paper's formulas, by the proven
//! bounds, and in simulations that search for a late message.

use punctual_analysis::Steps;
use punctual_analysis::channel::{DelayBound, paper};
use punctual_model::channel::{BestEffort, Channel, LinkScheduling, SendCosts, Sender};
use punctual_model::{Duration, Instant, Service};
use punctual_policy::queues::ServiceOrder;
use punctual_sim::egress::Exact;
use punctual_sim::egress::traffic::{Delays, periodic};
use sending_host::bounds::{Assumed, edf, sound};
use sending_host::simulation::sources::Backlog;
use sending_host::simulation::{Setup, run};

use crate::host::{KB, OPTIONS, PERIOD, channels, sender};
use crate::table::Table;

/// The least cost of a step, in parts per million of its cost: none, most, all.
const LEAST: [u32; 4] = [0, 800_000, 900_000, 1_000_000];

/// Returns option, S and P of each point of the figures.
fn channels_by_host() -> Vec<(&'static str, LinkScheduling, u32, u32)> {
    let sizes = [1, 2, 4, 6, 8, 10, 12, 16, 32].map(|kb| (kb, 1));
    let blocks = [(4, 2), (4, 3), (4, 4), (4, 6), (4, 8), (8, 2), (8, 3), (8, 4)];
    let each = OPTIONS.into_iter().flat_map(|(name, option)| {
        sizes.into_iter().chain(blocks).map(move |(kb, p)| (name, option, kb, p))
    });
    each.collect()
}

/// Returns the channels by the paper, by `sound` with each of [`LEAST`], by deadline with exact
/// costs, and simulated.
fn channels_row(sender: &Sender) -> [usize; 7] {
    let paper = admitted(|set, steps| within(&paper::delays(sender, set, steps), set));
    let [upper, most, nearly, exact] = LEAST.map(|ppm| {
        let assumed = Assumed::at_least(ppm, sender.costs);
        admitted(|set, steps| within(&sound::delays_assuming(sender, set, assumed, steps), set))
    });
    let assumed = Assumed::at_least(1_000_000, sender.costs);
    let by_deadline = admitted(|set, steps| edf::all_in_time_assuming(sender, set, assumed, steps));
    let simulated = first_late(sender, exact.max(by_deadline).max(1)) - 1;
    [paper, upper, most, nearly, exact, by_deadline, simulated]
}

/// Returns the table of Figures 6 and 7.
pub(crate) fn channels_table() -> Table {
    let row = |(name, option, kb, per_block): (&str, LinkScheduling, u32, u32)| {
        let counts = channels_row(&sender(option, 50, kb, per_block));
        let mut row = vec![name.to_string(), kb.to_string(), per_block.to_string()];
        row.extend(counts.map(|count| count.to_string()));
        row
    };
    Table {
        name: "channels",
        caption: "Figures 6 and 7: channels of 32 KB every 100 ms within 100 ms, link 50 ns a byte",
        head: vec![
            "option",
            "S in KB",
            "P",
            "paper",
            "sound",
            "costs of 80 to 100 %",
            "costs of 90 to 100 %",
            "exact costs",
            "the same by deadline",
            "simulated",
        ],
        rows: channels_by_host().into_iter().map(row).collect(),
    }
}

/// Returns the effect of real costs (§5.2), by the paper's formulas.
pub(crate) fn ideal_and_real() -> Table {
    let row = |kb: u32| {
        let (ideal, real) = ideal_and_real_at(kb);
        let gain = (ideal * 100 / real.max(1)) as i64 - 100;
        vec![kb.to_string(), real.to_string(), ideal.to_string(), format!("{gain:+}")]
    };
    Table {
        name: "ideal-and-real",
        caption: "§5.2: channels in O1, P = 1, by the paper's formulas; ideal: no switches, no cold \
                  caches, no best effort",
        head: vec!["S in KB", "real", "ideal", "gain in %"],
        rows: [1, 2, 4, 6, 8, 10, 12, 16, 32].into_iter().map(row).collect(),
    }
}

fn ideal_and_real_at(kb: u32) -> (usize, usize) {
    let real = sender(LinkScheduling::InInterrupt, 50, kb, 1);
    let costs = SendCosts { switch: Service::ZERO, cache: Service::ZERO, ..real.costs };
    let ideal = Sender { costs, best_effort: BestEffort::None, ..real };
    let by_paper =
        |sender: &Sender| admitted(|set, steps| within(&paper::delays(sender, set, steps), set));
    (by_paper(&ideal), by_paper(&real))
}

/// Returns how many channels a test admits.
fn admitted(fits: impl Fn(&[Channel], &mut Steps) -> bool) -> usize {
    let refused = (1..).find(|&n| !fits(&channels(n), &mut Steps::default()));
    // Each further channel asks for more of the link, so there is an end.
    refused.map_or(0, |n| n - 1)
}

fn within(delays: &[DelayBound], channels: &[Channel]) -> bool {
    delays.iter().zip(channels).all(|(d, c)| d.bound().is_some_and(|d| d <= c.delay_bound()))
}

/// Returns the least number of channels, from `from` on, with which a search for the worst arrivals
/// finds a late message: channels come together or one just after another from the least urgent up,
/// while best effort waits.
fn first_late(sender: &Sender, from: usize) -> usize {
    (from..).find(|&n| is_late(sender, &channels(n))).unwrap_or(usize::MAX)
}

fn is_late(sender: &Sender, channels: &[Channel]) -> bool {
    // Steps around a block, a message and its share of the period; the backlog shifted.
    let steps = [0, 1, 500_000, 700_000, 1_000_000, 1_500_000, 2_000_000];
    let first = Instant::from_nanos(50_000_000);
    let runs = steps.into_iter().flat_map(|step| (0..6).map(move |shift| (step, shift)));
    let mut delays = Delays::new(channels);
    for (step, shift) in runs {
        let n = channels.len() as u64;
        let source = |rank| {
            let at = first + Duration::from_nanos(step * (n - 1 - rank));
            periodic(at, PERIOD, 32 * KB).take(3)
        };
        let from = Instant::from_nanos(40_000_000 + shift * 121_000);
        let room = 64 + sender.packetisation.packets_of(32 * KB);
        let backlog = Backlog { bytes: 32 * KB, first: from, pause: Duration::ZERO, room };
        let setup = Setup {
            sender,
            channels,
            order: ServiceOrder::Rank,
            room: 8,
            backlogs: &[backlog],
            hogs: &[],
        };
        let until = Instant::from_nanos(1_000_000_000);
        let totals = run(&setup, (0..n).map(source).collect(), Exact, until, &mut delays);
        if totals.inside > 0 || delays.channels.iter().any(|c| c.late > 0 || c.refused > 0) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_5_2_ideal_resources_admit_38_percent_more_at_4_kb() {
        assert_eq!(ideal_and_real_at(4), (36, 26));
    }

    /// A safe test admits no more than the simulation does.
    #[test]
    fn proven_bounds_stay_below_the_simulation() {
        for (option, kb, p) in [
            (LinkScheduling::InInterrupt, 16, 1),
            (LinkScheduling::InThread, 8, 1),
            (LinkScheduling::InThread, 8, 3),
        ] {
            let [_, proven @ .., by_deadline, simulated] = channels_row(&sender(option, 50, kb, p));
            assert!(proven.is_sorted(), "{option:?} {kb} {p}: {proven:?}");
            assert!(proven[3].max(by_deadline) <= simulated, "{option:?} {kb} {p}");
        }
    }
}
