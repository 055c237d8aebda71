//! The results on the plane, as tables.

use punctual_sweep::sheet::{Sheet, Value};

use super::judge::{Class, Served};
use super::plane::{CARDS, Column, Point, least, least_predicted, point};
use super::study::{Measured, TABLE_3};

/// Positions in [`CARDS`] and [`Served::ALL`].
const LATCH: usize = 0;
const RING: usize = 1;
const FIXED: usize = 0;
const LATE: usize = 2;
const SOFT: usize = 3;

/// Never give up a call.
const WHOLE_CALL: u64 = 1_000_000;

/// The twelve reservations of the study, each with the study's measurement and our result.
pub struct TwelvePoints {
    rows: Vec<(Measured, Point)>,
}

impl TwelvePoints {
    /// Judges the twelve reservations.
    pub fn judge() -> Self {
        Self { rows: TABLE_3.map(|row| (row, point(row.reservation(), WHOLE_CALL))).into() }
    }

    /// Returns the measurements and our results.
    pub fn rows(&self) -> &[(Measured, Point)] {
        &self.rows
    }

    /// Returns how many of the twelve are on the study's side of the border between sufficient and
    /// not.
    pub fn on_the_same_side(&self, card: usize, served: usize) -> usize {
        let same = |(measured, point): &&(Measured, Point)| {
            let found = point.cards[card].verdicts[served].class();
            (found == Class::Sufficient) == (measured.class == Class::Sufficient)
        };
        self.rows.iter().filter(same).count()
    }

    /// Returns how many of the twelve have the study's class.
    pub fn of_the_same_class(&self, card: usize, served: usize) -> usize {
        let same = |(measured, point): &&(Measured, Point)| {
            point.cards[card].verdicts[served].class() == measured.class
        };
        self.rows.iter().filter(same).count()
    }

    /// Returns Table 3, the study's results beside ours.
    pub fn sheet(&self) -> Sheet {
        let row = |(measured, point): &(Measured, Point)| {
            let mut row = vec![
                Value::Time(Some(measured.reservation().budget().as_nanos())),
                Value::Time(Some(measured.reservation().period().as_nanos())),
                Value::Text(measured.class.name().into()),
                Value::Count(measured.succeeded as usize),
                Value::Flag(point.cards[LATCH].predicted[FIXED]),
            ];
            let of = |card: usize, served: usize| point.cards[card].verdicts[served];
            let intact = |card, served| Value::Count(of(card, served).intact as usize);
            row.extend([
                intact(LATCH, FIXED),
                Value::Share(Some(of(LATCH, FIXED).worst_ppm)),
                intact(LATCH, SOFT),
                Value::Share(Some(of(LATCH, SOFT).worst_ppm)),
                intact(RING, FIXED),
            ]);
            row
        };
        Sheet {
            name: "table-3",
            columns: &[
                ("budget_ns", "X"),
                ("period_ns", "Y"),
                ("study", "study"),
                ("study_succeeded", "of 10"),
                ("predicted", "proven"),
                ("latch_fixed_intact", "latch, hard"),
                ("latch_fixed_lost_ppm", "most lost"),
                ("latch_soft_intact", "latch, soft"),
                ("latch_soft_lost_ppm", "most lost"),
                ("ring_fixed_intact", "ring, hard"),
            ],
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

/// The agreement of simulation and analysis over the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Reservations judged.
    pub all: usize,
    /// Reservations sufficient in the simulation.
    pub sufficient: usize,
    /// Reservations marginal in the simulation.
    pub marginal: usize,
    /// Reservations proven to be sufficient.
    pub proven: usize,
    /// Proven reservations that lost samples in the simulation: one of the two is wrong.
    pub contradictions: usize,
    /// Reservations sufficient in the simulation but not proven.
    pub unproven: usize,
}

/// Counts the agreement for one card and one placement.
pub fn agreement(plane: &[Column], card: usize, served: usize) -> Agreement {
    let mut agreement = Agreement::default();
    for point in plane.iter().flatten() {
        let judged = &point.cards[card];
        let class = judged.verdicts[served].class();
        let (sufficient, proven) = (class == Class::Sufficient, judged.predicted[served]);
        agreement.all += 1;
        agreement.sufficient += usize::from(sufficient);
        agreement.marginal += usize::from(class == Class::Marginal);
        agreement.proven += usize::from(proven);
        agreement.contradictions += usize::from(proven && !sufficient);
        agreement.unproven += usize::from(sufficient && !proven);
    }
    agreement
}

/// Returns simulation, analysis and the twelve points, for each card and placement.
pub fn summary(plane: &[Column], points: &TwelvePoints) -> Sheet {
    let mut rows = Vec::new();
    for (card, (.., name)) in CARDS.iter().enumerate() {
        for (served, how) in Served::ALL.iter().enumerate() {
            let found = agreement(plane, card, served);
            rows.push(vec![
                Value::Text((*name).into()),
                Value::Text(how.name().into()),
                Value::Count(found.all),
                Value::Count(found.sufficient),
                Value::Count(found.marginal),
                Value::Count(found.proven),
                Value::Count(found.contradictions),
                Value::Count(found.unproven),
                Value::Count(points.on_the_same_side(card, served)),
                Value::Count(points.of_the_same_class(card, served)),
            ]);
        }
    }
    Sheet {
        name: "reservation-map-summary",
        columns: &[
            ("card", "card"),
            ("served", "served"),
            ("reservations", "all"),
            ("sufficient", "enough"),
            ("marginal", "marginal"),
            ("proven", "proven"),
            ("contradictions", "proven, yet lost"),
            ("unproven", "enough, not proven"),
            ("points_same_side", "of 12 points same side"),
            ("points_same_class", "same class"),
        ],
        rows,
    }
}

/// Returns the lower edges: for each Y the least X of the grid from which on every X is sufficient.
pub fn edges(plane: &[Column]) -> Sheet {
    let row = |column: &Column| {
        let mut row =
            vec![Value::Time(column.first().map(|one| one.reservation.period().as_nanos()))];
        for card in 0..CARDS.len() {
            for served in 0..Served::ALL.len() {
                row.push(Value::Time(least(column, card, served).map(|x| x.as_nanos())));
            }
            for served in [FIXED, LATE] {
                row.push(Value::Time(least_predicted(column, card, served).map(|x| x.as_nanos())));
            }
        }
        row
    };
    Sheet {
        name: "reservation-map-edges",
        columns: &[
            ("period_ns", "Y"),
            ("latch_fixed_ns", "latch, hard"),
            ("latch_early_ns", "early"),
            ("latch_late_ns", "late"),
            ("latch_soft_ns", "soft"),
            ("latch_every_window_ns", "proven, every window"),
            ("latch_every_period_ns", "proven, every period"),
            ("ring_fixed_ns", "ring, hard"),
            ("ring_early_ns", "early"),
            ("ring_late_ns", "late"),
            ("ring_soft_ns", "soft"),
            ("ring_every_window_ns", "proven, every window"),
            ("ring_every_period_ns", "proven, every period"),
        ],
        rows: plane.iter().map(row).collect(),
    }
}

/// Returns the whole plane with a row for each reservation: for each card and placement the class
/// (0 sufficient, 1 marginal, 2 insufficient), and whether it is proven.
pub fn whole(plane: &[Column]) -> Sheet {
    let row = |point: &Point| {
        let mut row = vec![
            Value::Time(Some(point.reservation.period().as_nanos())),
            Value::Time(Some(point.reservation.budget().as_nanos())),
        ];
        for judged in &point.cards {
            row.extend(judged.verdicts.iter().map(|one| Value::Count(one.class() as usize)));
            row.extend([FIXED, LATE].map(|at| Value::Count(usize::from(judged.predicted[at]))));
        }
        row
    };
    Sheet {
        name: "reservation-map",
        columns: &[
            ("period_ns", "Y"),
            ("budget_ns", "X"),
            ("latch_fixed", "latch, hard"),
            ("latch_early", "early"),
            ("latch_late", "late"),
            ("latch_soft", "soft"),
            ("latch_proven_every_window", "proven"),
            ("latch_proven_every_period", "proven"),
            ("ring_fixed", "ring, hard"),
            ("ring_early", "early"),
            ("ring_late", "late"),
            ("ring_soft", "soft"),
            ("ring_proven_every_window", "proven"),
            ("ring_proven_every_period", "proven"),
        ],
        rows: plane.iter().flatten().map(row).collect(),
    }
}
