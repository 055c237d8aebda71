//! The parameters of a link: lengths, windows and timers.

use punctual_model::Duration;

use crate::lapm::xid::{Compression, Limits};
use crate::lapm::{DEFAULT_K, DEFAULT_N401};

/// The parameters of a link. All of them may differ between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// N401 and k each way, before negotiation. Values above [`MAX_N401`](crate::lapm::MAX_N401)
    /// and [`MAX_K`](crate::lapm::MAX_K) are reduced to these.
    pub limits: Limits,
    /// The time to wait for an answer.
    pub t401: Duration,
    /// The number of times to ask again before giving up.
    pub n400: u8,
    /// The number of times to send the same I frame again, while the far end answers but does not
    /// receive it, before giving up.
    pub repeats: u32,
    /// The time without a frame after which to ask whether the far end is there; `None`: never.
    pub t403: Option<Duration>,
    /// True if the calling end sends XID first.
    pub negotiate: bool,
    /// The compression that this end wants; only negotiation can enable it.
    pub compression: Compression,
}

/// The longest time that a frame should take. A line that garbles a hundredth of the time in pieces
/// of 20 ms spares half of the frames of this length, and hardly any four times as long.
const FRAME_MS: u64 = 1_300;

/// The shortest frames worth their seven bytes of head, check sequence and flag.
const LEAST_N401: u16 = 16;

/// Returns the milliseconds that a frame with `n401` bytes of information takes, with worst-case
/// stuffing.
fn frame_ms(n401: u16, bit_rate: u32) -> u64 {
    (u64::from(n401) + 8) * 8 * 6 / 5 * 1_000 / u64::from(bit_rate.max(1))
}

/// Returns N401 for a direction: V.42's default, halved until a frame takes a short enough time.
fn n401(bit_rate: u32) -> u16 {
    let mut bytes = DEFAULT_N401;
    while bytes > LEAST_N401 && frame_ms(bytes, bit_rate) > FRAME_MS {
        bytes /= 2;
    }
    bytes
}

impl Parameters {
    /// Returns the parameters for a line of `bit_rate` bit/s each way and no unusual delay.
    pub fn for_rate(bit_rate: u32) -> Self {
        Self::for_rates(bit_rate, bit_rate)
    }

    /// Returns the parameters for a line of `sent` bit/s from this end and `received` bit/s to it,
    /// and no unusual delay.
    ///
    /// T401 covers the longest wait for an acknowledgement that was not lost: the frame itself, the
    /// one that the far end is sending, and its next one with the acknowledgement, each with its
    /// stuffing; plus a second for the modems, the line and the drivers.
    pub fn for_rates(sent: u32, received: u32) -> Self {
        let limits = Limits {
            n401_sent: n401(sent),
            n401_received: n401(received),
            k_sent: DEFAULT_K,
            k_received: DEFAULT_K,
        };
        let wait = frame_ms(limits.n401_sent, sent) + 2 * frame_ms(limits.n401_received, received);
        Self {
            limits,
            t401: Duration::from_millis(wait + 1_000),
            n400: 6,
            repeats: 24,
            t403: Some(Duration::from_secs(30)),
            negotiate: true,
            compression: Compression::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_lines_have_short_frames_and_fast_ones_the_default() {
        for (rate, bytes) in [(75, 16), (300, 32), (1_200, 128), (2_400, 128), (0, 16)] {
            let parameters = Parameters::for_rate(rate);
            assert_eq!(parameters.limits, Limits::both(bytes, DEFAULT_K), "{rate} bit/s");
        }
        let uneven = Parameters::for_rates(75, 1_200).limits;
        assert_eq!((uneven.n401_sent, uneven.n401_received), (16, 128));
    }
}
