//! Figure 17 and Table 3: the plane of reservations.

use punctual_model::{Duration, Service};
use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Cell, Line, Mark, Plane, Plot, Shape, Shown};

use crate::map::judge::{Class, Served};
use crate::map::plane::{CARDS, Column, Grid, least_predicted};
use crate::map::tables::{TwelvePoints, edges, summary};
use crate::virtual_time::driver::{Card, Device};

/// Returns the section.
pub fn section(grid: &Grid, plane: &[Column], points: &TwelvePoints) -> Section {
    let whole = View::whole(grid);
    let mut planes = vec![plot(plane, points, (0, 0), &View::figure_17(grid))];
    for card in 0..CARDS.len() {
        for served in 0..Served::ALL.len() {
            planes.push(plot(plane, points, (card, served), &whole));
        }
    }
    let [(.., latch, _), ..] = CARDS;
    let same = |served| points.on_the_same_side(0, served);
    Section {
        title: "Which reservations are enough (Figure 17, Table 3)".into(),
        about: vec![
            "The study's modem, 1.84 ms of work every 12.5 ms, under X in every Y. Each reservation \
             is tried in ten calls of 37 s whose interrupts meet its slots at ten different places, \
             the worst among them (where it begins when the thread wakes, the ten are one). \
             Sufficient: no call lost anything; marginal: some lost something, none more than 5 % \
             (our number: the study gives none); insufficient: more."
                .into(),
            format!(
                "Two cards. The {latch} forgets a batch of samples that nobody has begun to work on \
                 when the next comes: so the study's driver behaved. The ring keeps 512 samples: so \
                 the study's card was built. Four services. Fixed: the budget at the same place in \
                 every period, as a timetable gives it. Early and late: a hard server whose budget \
                 begins when the thread wakes, given at once, or so late that it just ends with its \
                 deadline. Soft: fixed, and an ordinary thread's turns outside, with one spinning \
                 competitor and slices of 120 ms."
            ),
            "The two lines are the study's model: X/Y at least 14.72 %, and Y - X under 12.5 ms. \
             For the latch at a fixed place the model is a theorem, and simulation and proof draw \
             the same border; docs/soft-modem-study.md says why. The ring has another border: a \
             longer gap costs it nothing, so the points that failed for their gap would have worked."
                .into(),
            format!(
                "Of the twelve points measured, {} fall on the study's side of the border with the \
                 latch and hard service, {} with soft. The odd one out is 1 ms every 7 ms, which the \
                 study itself cannot explain: 14.29 % is less than the modem's average need.",
                same(0),
                same(3),
            ),
        ],
        summary: summary(plane, points),
        plots: Vec::new(),
        parts: vec![
            Part { title: "The twelve points of Table 3".into(), plots: planes, sheet: points.sheet() },
            Part { title: "The lower edges".into(), plots: Vec::new(), sheet: edges(plane) },
        ],
    }
}

/// Converts to milliseconds, for drawing only.
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// The part of the plane that a plot shows.
struct View {
    grid: Grid,
    /// The limits of Y and X, in milliseconds.
    longest: f64,
    highest: f64,
    /// True if the twelve points have room for their names.
    names: bool,
}

impl View {
    /// Returns the part in the study's figure.
    fn figure_17(grid: &Grid) -> Self {
        Self { grid: *grid, longest: 22.0, highest: 9.0, names: true }
    }

    /// Returns all periods. Above half of the longest Y only the border continues.
    fn whole(grid: &Grid) -> Self {
        let longest = millis(grid.longest);
        Self { grid: *grid, longest, highest: longest / 2.0, names: false }
    }
}

fn plot(
    plane: &[Column],
    points: &TwelvePoints,
    (card, served): (usize, usize),
    view: &View,
) -> Plot {
    let (kind, how) = (CARDS[card].2, Served::ALL[served].name());
    let found = crate::map::tables::agreement(plane, card, served);
    let &View { longest, highest, names, .. } = view;
    let cells = plane.iter().flat_map(|column| cells(column, (card, served), view));
    let mut lines = vec![share_line(longest), gap_line(longest, highest)];
    if CARDS[card].0 != Card::Latch || served > 0 {
        lines.push(proven(plane, (card, served), highest));
    }
    Plot {
        title: if names {
            format!("Figure 17 in simulation: card {kind}, service {how}")
        } else {
            format!("The whole plane: card {kind}, service {how}")
        },
        description: format!(
            "Budget X against period Y, both in milliseconds, for the {kind} and {how} service. Of {} \
             reservations {} are sufficient, {} marginal, {} are proven to be sufficient. The marks \
             are the twelve reservations that the study measured.",
            found.all, found.sufficient, found.marginal, found.proven
        ),
        x: Axis::new("period Y, ms", 0.0, longest),
        y: Axis::new("budget X, ms", 0.0, highest),
        shape: Shape::Plane(Plane {
            classes: [Class::Sufficient, Class::Marginal, Class::Insufficient]
                .map(|class| class.name().to_owned())
                .into(),
            cells: cells.collect(),
            lines,
            shown: vec![
                ("worked in the study", Shown::Disc),
                ("marginal there", Shown::Triangle),
                ("failed there", Shown::Cross),
                ("1.84 ms every 12.5 ms", Shown::Ring),
            ],
            marks: marks(points, names),
        }),
    }
}

/// Returns a cell for each run of one class in a column.
fn cells(column: &Column, (card, served): (usize, usize), view: &View) -> Vec<Cell> {
    let &View { longest, highest, .. } = view;
    let half = millis(view.grid.step) / 2.0;
    let class = |at: usize| column[at].cards[card].verdicts[served].class();
    let mut cells = Vec::new();
    let mut from = 0;
    for at in 1..=column.len() {
        if at < column.len() && class(at) == class(from) {
            continue;
        }
        let (first, last) = (&column[from].reservation, &column[at - 1].reservation);
        let (x, bottom) = (millis(first.period()), millis(first.budget().at_full_speed()) - half);
        if bottom < highest && x - half < longest {
            let top = (millis(last.budget().at_full_speed()) + half).min(highest);
            let right = (x + half).min(longest);
            cells.push(Cell {
                from: (x - half, bottom),
                to: (right, top),
                class: class(from) as usize,
            });
        }
        from = at;
    }
    cells
}

fn share_line(longest: f64) -> Line {
    let modem = Device::of_the_study(Card::Latch);
    let share = modem.work.as_nanos() as f64 / modem.period.as_nanos() as f64;
    Line {
        name: "X/Y = 14.72 %".into(),
        points: vec![Some((0.0, 0.0)), Some((longest, longest * share))],
    }
}

fn gap_line(longest: f64, highest: f64) -> Line {
    let gap = millis(Device::of_the_study(Card::Latch).period);
    let end = longest.min(highest + gap);
    Line { name: "Y - X = 12.5 ms".into(), points: vec![Some((gap, 0.0)), Some((end, end - gap))] }
}

fn proven(plane: &[Column], (card, served): (usize, usize), highest: f64) -> Line {
    let height = |x: Service| millis(x.at_full_speed());
    let point = |column: &Column| {
        let x = least_predicted(column, card, served).map(height)?;
        let y = millis(column.first()?.reservation.period());
        (x <= highest).then_some((y, x))
    };
    Line {
        name: "least X that is proven to be sufficient".into(),
        points: plane.iter().map(point).collect(),
    }
}

fn marks(points: &TwelvePoints, names: bool) -> Vec<Mark> {
    let modem = Device::of_the_study(Card::Latch);
    let actual = Mark {
        at: (millis(modem.period), millis(modem.work.at_full_speed())),
        shown: Shown::Ring,
        name: String::new(),
    };
    let mark = |measured: &crate::map::study::Measured| Mark {
        at: (measured.period_ms as f64, measured.budget_ms as f64),
        shown: match measured.class {
            Class::Sufficient => Shown::Disc,
            Class::Marginal => Shown::Triangle,
            Class::Insufficient => Shown::Cross,
        },
        name: if names {
            format!("{}/{}", measured.budget_ms, measured.period_ms)
        } else {
            String::new()
        },
    };
    points.rows().iter().map(|(measured, _)| mark(measured)).chain([actual]).collect()
}
