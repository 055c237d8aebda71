//! The library's modems, and the files that they carry.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::call::Job;
use crate::virtual_time::device::{Card, RING};

/// A modem of the library.
#[derive(Clone, Copy, Debug)]
pub struct Modem {
    /// Its name in tables.
    pub name: &'static str,
    /// Its name in `AT+MS`, and further settings.
    pub modulation: &'static str,
    /// Bytes of its file: two to three seconds.
    pub bytes: usize,
}

/// The number of modems.
pub const COUNT: usize = 4;

/// All modems. V.22bis has error control. The slow ones do not: there lost data stays lost, and a
/// call connects in 3 to 6 s.
pub const MODEMS: [Modem; COUNT] = [
    Modem { name: "V.22bis", modulation: "V22B,0", bytes: 600 },
    Modem { name: "V.23", modulation: "V23C,0;+ES=1,0,1", bytes: 300 },
    Modem { name: "V.21", modulation: "V21,0;+ES=1,0,1", bytes: 75 },
    Modem { name: "Bell 103", modulation: "B103,0;+ES=1,0,1", bytes: 75 },
];

impl Modem {
    /// Returns its transfer: the file and the noise of the line follow from the seed.
    pub fn job(&self, seed: u64) -> Job {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut file = vec![0; self.bytes];
        rng.fill_bytes(&mut file);
        Job {
            modulation: self.modulation,
            card: Card::Ring(RING),
            file: Arc::from(file),
            seed: rng.next_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Duration, Instant};
    use punctual_modem::PERIOD;

    use super::*;
    use crate::call::Call;
    use crate::live::library::serve::PATIENCE;

    /// Served in time, each transfer completes well before a live call gives up.
    #[test]
    fn in_time_every_file_arrives_in_seconds() {
        let start = Instant::from_nanos(1_000);
        for modem in MODEMS {
            for seed in 0..3 {
                let mut call = Call::new(&modem.job(seed), start, Vec::new());
                let mut now = start;
                while !call.is_over() && now < start + PATIENCE {
                    now += PERIOD;
                    let _ = call.take(now);
                    call.answer(now);
                }
                let found = call.result();
                let took = found.took.unwrap_or_else(|| panic!("{}: {found:?}", modem.name));
                assert!(now + Duration::from_secs(3) < start + PATIENCE, "{}: {now}", modem.name);
                assert!(took < Duration::from_secs(4), "{}: {took}", modem.name);
            }
        }
    }
}
