//! Integer nanoseconds: points in time, lengths of time, and amounts of work.
//!
//! Three types, so that the compiler keeps them apart: an [`Instant`] is a point on a monotonic
//! time line whose origin the driver chooses, a [`Duration`] is a length of that line, and a
//! [`Service`] is processor time received or needed. A second of wall time and a second of work are
//! different things, and nearly every scheduling bug begins with mixing them up; conversions are
//! always explicit ([`Service::at_full_speed`], [`Duration::as_full_service`]).
//!
//! Plain operators panic on overflow (also in release builds, see the workspace profile): 64 bits
//! of nanoseconds last 584 years, so an overflow is a bug. Code that computes with arbitrary
//! contract values uses the `checked_` and `saturating_` forms.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// A point on a monotonic time line, in nanoseconds since an origin that the driver chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// An amount of processor time in nanoseconds of one CPU at full speed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Service(u64);

impl Instant {
    /// The origin of the time line.
    pub const ZERO: Self = Self(0);
    /// The last representable instant; also used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Makes the instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns `self − earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns `self + by`, or [`Instant::MAX`] if that is not representable.
    pub const fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration(self.0 - earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0 + by.0)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        self.0 += by.0;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0 - by.0)
    }
}

/// Defines the methods that [`Duration`] and [`Service`] share as lengths.
macro_rules! length {
    ($t:ident) => {
        impl $t {
            /// The length zero.
            pub const ZERO: Self = Self(0);
            /// The largest representable length.
            pub const MAX: Self = Self(u64::MAX);

            /// Makes a length of `ns` nanoseconds.
            pub const fn from_nanos(ns: u64) -> Self {
                Self(ns)
            }

            /// Makes a length of `us` microseconds.
            pub const fn from_micros(us: u64) -> Self {
                Self(us * 1_000)
            }

            /// Makes a length of `ms` milliseconds.
            pub const fn from_millis(ms: u64) -> Self {
                Self(ms * 1_000_000)
            }

            /// Makes a length of `s` seconds.
            pub const fn from_secs(s: u64) -> Self {
                Self(s * 1_000_000_000)
            }

            /// Returns the length in nanoseconds.
            pub const fn as_nanos(self) -> u64 {
                self.0
            }

            /// Returns the length in seconds, for printing and plotting only.
            pub fn as_secs_f64(self) -> f64 {
                self.0 as f64 / 1e9
            }

            /// Returns true if the length is zero.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// Returns `self + other`, or `None` on overflow.
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(ns) => Some(Self(ns)),
                    None => None,
                }
            }

            /// Returns `self × n`, or `None` on overflow.
            pub const fn checked_mul(self, n: u64) -> Option<Self> {
                match self.0.checked_mul(n) {
                    Some(ns) => Some(Self(ns)),
                    None => None,
                }
            }

            /// Returns `self − other`, or zero if `other` is longer.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Returns `self + other`, or the largest length on overflow.
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl Add for $t {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $t {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $t {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $t {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Mul<u64> for $t {
            type Output = Self;
            fn mul(self, n: u64) -> Self {
                Self(self.0 * n)
            }
        }

        impl Div<u64> for $t {
            type Output = Self;
            fn div(self, n: u64) -> Self {
                Self(self.0 / n)
            }
        }

        impl Div for $t {
            type Output = u64;
            /// Returns how many whole times `other` fits; panics if `other` is zero.
            fn div(self, other: Self) -> u64 {
                self.0 / other.0
            }
        }

        impl Rem for $t {
            type Output = Self;
            fn rem(self, other: Self) -> Self {
                Self(self.0 % other.0)
            }
        }

        impl Sum for $t {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }

        /// Writes the exact length in its largest unit: `1.84ms`, `120us`, `2s`. This is the
        /// grammar of contracts, so it parses back to the same length.
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_nanos(f, self.0)
            }
        }

        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($t), "({})"), self)
            }
        }
    };
}

length!(Duration);
length!(Service);

impl Duration {
    /// Returns the work that one CPU at full speed can do in this time.
    pub const fn as_full_service(self) -> Service {
        Service(self.0)
    }
}

impl Service {
    /// Returns the time that this work takes on one CPU that does nothing else.
    pub const fn at_full_speed(self) -> Duration {
        Duration(self.0)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_nanos(f, self.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({self})")
    }
}

/// Writes nanoseconds exactly, in the largest unit whose value is at least one.
pub fn write_nanos(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    let (unit, scale, digits) = match ns {
        1_000_000_000.. => ("s", 1_000_000_000, 9),
        1_000_000.. => ("ms", 1_000_000, 6),
        1_000.. => ("us", 1_000, 3),
        _ => ("ns", 1, 0),
    };
    let (whole, mut fraction, mut width) = (ns / scale, ns % scale, digits);
    if fraction == 0 {
        return f.pad(&alloc::format!("{whole}{unit}"));
    }
    while fraction % 10 == 0 {
        fraction /= 10;
        width -= 1;
    }
    f.pad(&alloc::format!("{whole}.{fraction:0width$}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn time_and_work_cross_over_only_when_spelled_out() {
        let window = Duration::from_millis(2);
        assert_eq!(window.as_full_service(), Service::from_micros(2000));
        assert_eq!(Service::from_micros(3).at_full_speed(), Duration::from_nanos(3000));
    }

    #[test]
    fn lengths_print_exactly_and_in_the_contract_grammar() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (120_000, "120us"),
            (1_840_000, "1.84ms"),
            (1_000_000_000, "1s"),
            (1_000_000_001, "1.000000001s"),
        ] {
            assert_eq!(Duration::from_nanos(ns).to_string(), text);
            assert_eq!(crate::units::parse_nanos(text), Ok(ns));
        }
    }

    #[test]
    #[should_panic(expected = "overflow")]
    fn plain_arithmetic_panics_rather_than_wraps() {
        let _ = Instant::MAX + Duration::from_nanos(1);
    }
}
