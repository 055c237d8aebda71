//! The memory that a channel is granted, against messages counted one by one.

use punctual_analysis::admit;
use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, Packetisation, SendCosts, SenderSpec,
};
use punctual_model::{Contract, Duration, HostProfile, Policy, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Returns the number of messages that the grant has room for.
fn granted(arrivals: LinearBounded, delay_bound: u64) -> u64 {
    let free = Service::ZERO;
    let sender = SenderSpec {
        link: Link::new(Duration::from_nanos(1), 0).expect("valid"),
        costs: Some(SendCosts {
            switch: free,
            cache: free,
            first_packet: free,
            packet: free,
            link_scheduling: free,
        }),
        packetisation: Packetisation::new(100, 1).expect("valid"),
        cpu: None,
        allowance: Duration::ZERO,
        best_effort: BestEffort::None,
        memory: None,
    };
    let delay_bound = Duration::from_nanos(delay_bound);
    let channel = Channel::new("c", &arrivals.into(), delay_bound).expect("valid");
    let contract = Contract {
        sender: Some(sender),
        channels: vec![channel],
        ..Contract::of_tasks(Policy::Rm, 1, Vec::new())
    };
    let grant = admit(&contract, &HostProfile::ideal(1)).expect("next to nothing");
    grant.channels[0].buffer / u64::from(arrivals.max_message())
}

/// Returns the most stays `(comes, has left)` at once, both instants included.
fn most_at_once(stays: &[(u64, u64)]) -> u64 {
    let there = |at: u64| stays.iter().filter(|&&(from, to)| from <= at && at <= to).count();
    stays.iter().map(|&(from, _)| there(from) as u64).max().unwrap_or(0)
}

#[test]
fn no_conforming_sender_needs_more_and_a_greedy_one_needs_all() {
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (spacing, burst) = (rng.random_range(5..60u64), rng.random_range(1..6u32));
        let delay = rng.random_range(4..300u64);
        let arrivals = LinearBounded::fixed(7, Duration::from_nanos(spacing), burst);
        let room = granted(arrivals.expect("valid"), delay);
        let jitter = spacing * u64::from(burst - 1);
        let mut worst = 0;
        for greedy in [true, false] {
            let (mut comes, mut logical) = (0u64, 0u64);
            let stays: Vec<(u64, u64)> = (0..120)
                .map(|_| {
                    // As early as a conforming sender may send, or later.
                    let earliest = logical.saturating_sub(jitter).max(comes);
                    let later = if greedy || rng.random() { 0 } else { rng.random_range(0..90) };
                    comes = earliest + later;
                    let counts_from = logical.max(comes);
                    logical = counts_from + spacing;
                    let stays = if greedy { delay } else { rng.random_range(0..=delay) };
                    (comes, counts_from + stays)
                })
                .collect();
            let most = most_at_once(&stays);
            assert!(most <= room, "seed {seed}: {most} of {room}");
            worst = worst.max(most);
        }
        // One fewer if no message comes just as another has left.
        assert!(worst + 1 >= room, "seed {seed}: {worst} of {room}");
        if delay % spacing == 0 {
            assert_eq!(worst, room, "seed {seed}");
        }
    }
}
