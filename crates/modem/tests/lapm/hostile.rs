//! Random bytes as frames at any time: no panic, no byte out of place, no deadlock.

use punctual_model::{Duration, Instant};
use punctual_modem::lapm::hdlc::Deframer;
use punctual_modem::lapm::xid::Limits;
use punctual_modem::lapm::{Link, Parameters};
use punctual_modem::modem::Role;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

#[test]
fn any_frames_at_any_time_do_no_harm() {
    let (mut closed, mut connected) = (0, 0);
    for seed in 0..5_000_u64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let role = if seed % 2 == 0 { Role::Calling } else { Role::Answering };
        let mut now = Instant::from_nanos(3);
        let parameters = Parameters { limits: Limits::both(8, 3), ..Parameters::for_rate(2_400) };
        let mut link = Link::new(now, role, parameters);
        for _ in 0..100 {
            now += Duration::from_millis(u64::from(rng.next_u32() % 300));
            link.handle_timeout(now);
            let mut bytes = [0; 12];
            rng.fill_bytes(&mut bytes);
            bytes[0] = [1, 3, 3, bytes[0]][rng.next_u32() as usize % 4];
            let controls = [0x7f, 0x73, 0x63, 0xaf, 1, 5, 9, 0, 2, 4, bytes[1], 0x53];
            let few = if rng.next_u32().is_multiple_of(8) { 12 } else { 11 };
            bytes[1] = controls[rng.next_u32() as usize % few];
            bytes[2] &= 0x0f;
            let length = rng.next_u32() as usize % 13;
            link.frame(now, &bytes[..length]);
            let written = link.write(&bytes);
            assert!(written <= bytes.len());
            for _ in 0..4 {
                let Some(frame) = link.next_frame(now) else { break };
                assert!(frame.bytes().len() >= 2);
            }
            assert!(link.next_timeout().is_none_or(|due| due > now), "seed {seed}: a due time-out");
            connected += u32::from(link.stats().frames_received > 0);
            let mut room = [0; 3];
            let _ = link.read(&mut room);
        }
        closed += u32::from(matches!(link.state(), punctual_modem::lapm::LinkState::Closed(_)));
    }
    assert!(closed > 1_000 && connected > 1_000, "{closed} {connected}");
}

#[test]
fn noise_holds_next_to_no_frames() {
    let mut deframer = Deframer::default();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut bits = 0_u64;
    while bits < 20_000_000 {
        let word = rng.next_u64();
        for bit in 0..64 {
            let _ = deframer.put_bit(word >> bit & 1 == 1);
        }
        bits += 64;
    }
    let stats = deframer.stats();
    // By chance one in eight has whole bytes, and one in 65,536 of those a correct check sequence.
    assert!(stats.good < 5, "{stats:?}");
    assert!(stats.bad > 10_000, "{stats:?}");
}
