//! Writes a family of metrics: its head once, then its rows.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The most grants and channels with rows of their own, so that clients that ask for many grants
/// cannot fill the database.
pub(super) const MOST_ROWS: usize = 256;

/// The name and value of a label.
pub(super) type Label = (&'static str, String);

/// Writes the families of a page, one after the other.
pub(super) struct Families<'a, 'b> {
    to: &'a mut DescriptorEncoder<'b>,
}

impl<'a, 'b> Families<'a, 'b> {
    pub(super) fn new(to: &'a mut DescriptorEncoder<'b>) -> Self {
        Self { to }
    }

    /// Writes a gauge with a single value.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, None, [([], value)])
    }

    /// Writes gauges with labels, or nothing if there are none.
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
            // For an empty set of labels the library would write `{}`.
            if N == 0 {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// Writes counters since the start, or nothing if there are none.
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

    /// Writes a counter of time since the start.
    pub(super) fn counter_of_seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let mut family = self.to.encode_descriptor(name, help, unit, MetricType::Counter)?;
        family.encode_counter::<[Label; 0], f64, u64>(&value, None)
    }

    /// Writes histograms of times with their sums, or nothing if there are none.
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

/// Returns parts per million as a ratio.
pub(super) fn ratio(ppm: u64) -> f64 {
    ppm as f64 / 1e6
}

/// Returns nanoseconds as seconds.
pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
