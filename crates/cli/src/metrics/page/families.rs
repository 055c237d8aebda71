//! Writing a family of metrics: its head once, then its rows.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A name and its value.
pub(super) type Label = (&'static str, String);

/// The families of a page, one after the other.
pub(super) struct Families<'a, 'b> {
    to: &'a mut DescriptorEncoder<'b>,
}

impl<'a, 'b> Families<'a, 'b> {
    pub(super) fn new(to: &'a mut DescriptorEncoder<'b>) -> Self {
        Self { to }
    }

    /// One value.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, None, [([], value)])
    }

    /// Values that go up and down; nothing if there is none.
    pub(super) fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        rows: impl IntoIterator<Item = ([Label; N], f64)>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut family = self.to.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in rows {
            // Of no labels the library writes `{}`.
            if N == 0 {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// How many since the start; nothing if there is none.
    pub(super) fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = ([Label; N], u64)>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut family = self.to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, count) in rows {
            if N == 0 {
                family.encode_counter::<[Label; 0], u64, u64>(&count, None)?;
            } else {
                let mut row = family.encode_family(&labels)?;
                row.encode_counter::<[Label; 0], u64, u64>(&count, None)?;
            }
        }
        Ok(())
    }

    /// Time since the start.
    pub(super) fn counter_of_seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let mut family = self.to.encode_descriptor(name, help, unit, MetricType::Counter)?;
        family.encode_counter::<[Label; 0], f64, u64>(&value, None)
    }

    /// Times: their sum, and how many in each step; nothing if there is none.
    pub(super) fn histograms_of_seconds<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = ([Label; N], f64, Vec<(f64, u64)>)>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let unit = Some(&Unit::Seconds);
        let mut family = self.to.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for (labels, sum, steps) in rows {
            let count = steps.iter().map(|(_, count)| count).sum();
            let mut row = family.encode_family(&labels)?;
            row.encode_histogram::<[Label; 0]>(sum, count, &steps, None)?;
        }
        Ok(())
    }
}
