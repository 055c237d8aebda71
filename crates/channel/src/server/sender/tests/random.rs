//! Tests random events in random order.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Checks channels that open, send, close, are replaced and cheat, at random: each offered message
/// is sent, lost or under way, and every open channel goes on.
#[test]
fn everything_offered_is_accounted_for() {
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let room = 6;
        let mut sender = sender(room, no_fault);
        let mut clients: Vec<Option<Client>> = (0..room).map(|_| None).collect();
        let now = Cell::new(0);
        for _ in 0..400 {
            now.set(now.get() + rng.random_range(0..300));
            let at = ns(now.get());
            let key = rng.random_range(0..room);
            let client = &mut clients[key as usize];
            match (client.as_mut(), rng.random_range(0..20)) {
                (None, _) => {
                    let early = [TooEarly::Wait, TooEarly::Discard][rng.random_range(0..2)];
                    let spacing = rng.random_range(50..2_000);
                    let contract = terms(spacing, rng.random_range(1..4), 1_000_000, early);
                    let (new, channel) = Client::new(contract, Framing::Fragments);
                    sender.open(at, key, channel).expect("a free number");
                    *client = Some(new);
                }
                (Some(open), 0) => {
                    let channel = sender.close(key).expect("it is open");
                    let (account, ended) = (open.account(), channel.ended);
                    let known = account.sent + account.losses.total();
                    assert_eq!(account.offered, known, "seed {seed}: {account:?}");
                    assert!(!ended, "seed {seed}");
                    *client = None;
                }
                (Some(open), _) => {
                    for _ in 0..rng.random_range(0..4) {
                        if let Ok(Some(slot)) = open.puts.claim() {
                            slot.push(rng.random_range(1..400), rng.random());
                        }
                    }
                    if open.puts.publish() == Wake::Ring {
                        sender.look(at, key);
                    }
                }
            }
            run(&mut sender, &now, now.get() + rng.random_range(0..500));
        }
        // With time, all messages leave.
        run(&mut sender, &now, now.get() + 10_000_000);
        for open in clients.iter_mut().flatten() {
            let account = open.account();
            assert_eq!(
                account.offered,
                account.sent + account.losses.total(),
                "seed {seed}: {account:?}"
            );
            assert_eq!(open.puts.unreleased(), Ok(0), "seed {seed}");
            assert_eq!(account.late, 0, "seed {seed}: {account:?}");
        }
    }
}
