//! The whole plane of reservations, each judged for both cards and served in four ways.

use punctual_model::{Duration, Reservation, Service};
use punctual_sweep::workers::Workers;

use super::judge::{Class, MARGINAL_PPM, Served, Verdict, judge, predicted};
use crate::virtual_time::driver::{Card, Device, RING};

/// The reservations tried: every X and every Y that is a multiple of `step`, X at most Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The distance of two values; more than zero.
    pub step: Duration,
    /// A lower bound of Y: the shortest Y is the first multiple of `step` from here on.
    pub shortest: Duration,
    /// The longest Y.
    pub longest: Duration,
}

impl Grid {
    /// Returns the periods tried.
    pub fn periods(&self) -> Vec<Duration> {
        let step = self.step.as_nanos();
        let (from, to) = (self.shortest.as_nanos().div_ceil(step).max(1), self.longest / self.step);
        (from..=to).map(|at| self.step * at).collect()
    }

    /// Iterates over the budgets tried with one period.
    pub fn budgets(&self, period: Duration) -> impl Iterator<Item = Service> + use<> {
        let step = self.step;
        (1..=period / step).map(move |at| (step * at).as_full_service())
    }
}

/// The two cards, in the order of tables.
pub const CARDS: [(Card, &str, &str); 2] =
    [(Card::Latch, "latch", "latch"), (Card::Ring(RING), "ring", "ring")];

/// The results of one reservation for one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdicts in the order of [`Served::ALL`].
    pub verdicts: [Verdict; 4],
    /// The analysis's predictions in the same order.
    pub predicted: [bool; 4],
}

/// The results of one reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// X every Y.
    pub reservation: Reservation,
    /// The results in the order of [`CARDS`].
    pub cards: [Judged; 2],
}

/// All reservations with one Y, in order of X.
pub type Column = Vec<Point>;

/// Judges one reservation for the study's modem; calls that lose more than `give_up_ppm` are ended.
pub fn point(reservation: Reservation, give_up_ppm: u64) -> Point {
    let cards =
        CARDS.map(|(card, ..)| judged(&Device::of_the_study(card), reservation, give_up_ppm));
    Point { reservation, cards }
}

fn judged(device: &Device, reservation: Reservation, give_up_ppm: u64) -> Judged {
    let fixed = judge(device, reservation, Served::Fixed, None, give_up_ppm);
    let verdicts = Served::ALL.map(|served| match served {
        Served::Fixed => fixed,
        _ => judge(device, reservation, served, Some(fixed), give_up_ppm),
    });
    let predicted = Served::ALL.map(|served| predicted(device, reservation, served.guarantee()));
    Judged { verdicts, predicted }
}

/// Judges the whole grid with all threads. The result does not depend on their number.
pub fn judge_all(grid: &Grid, workers: &Workers) -> Vec<Column> {
    let reservations: Vec<Reservation> = grid
        .periods()
        .into_iter()
        .flat_map(|period| {
            grid.budgets(period)
                .map(move |budget| Reservation::new(budget, period).expect("X is at most Y"))
        })
        .collect();
    let points =
        workers.map("reservations", &reservations, |&reservation| point(reservation, MARGINAL_PPM));
    let same_period = |a: &Point, b: &Point| a.reservation.period() == b.reservation.period();
    points.chunk_by(same_period).map(<[Point]>::to_vec).collect()
}

/// Returns the least X of a column from which on every X is sufficient.
pub fn least(column: &Column, card: usize, served: usize) -> Option<Service> {
    lower_edge(column, |point| point.cards[card].verdicts[served].class() == Class::Sufficient)
}

/// Returns the least X of a column from which on every X is proven to be sufficient.
pub fn least_predicted(column: &Column, card: usize, served: usize) -> Option<Service> {
    lower_edge(column, |point| point.cards[card].predicted[served])
}

fn lower_edge(column: &Column, is_enough: impl Fn(&Point) -> bool) -> Option<Service> {
    let top = column.iter().rev().take_while(|point| is_enough(point));
    top.last().map(|point| point.reservation.budget())
}
