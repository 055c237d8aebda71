//! Streams and senders with the smallest and the largest numbers.

use crate::common::draw;
use punctual_analysis::mapping::{MappingError, map};
use punctual_model::channel::{BestEffort, Link, LinkScheduling, Packetisation, SendCosts, Sender};
use punctual_model::units::MAX_NANOS;
use punctual_model::{Duration, Service, Stream, StreamClass, StreamSpec};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The smallest and the largest of everything, in random mixtures: there is an answer and no panic.
#[test]
fn extremes_are_answered() {
    let (mut mapped, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut of = |values: &[u64]| values[draw(rng, 0, values.len() as u64 - 1) as usize];
        let bytes = [1, 1_000, 65_536, u32::MAX.into()];
        let times = [1, 1_000_000_000, MAX_NANOS];
        let costs = [0, 0, 0, 0, 1_000, 1_000, MAX_NANOS, u64::MAX];
        let spec = StreamSpec {
            name: "s".into(),
            class: StreamClass::NAMES[of(&[0, 1, 2, 3]) as usize].1,
            frame_period: Duration::from_nanos(of(&times)),
            frame_size: of(&bytes) as u32,
            burst: of(&[1, 3, u32::MAX.into()]) as u32,
            delay: Duration::from_nanos(of(&times)),
            tolerated_loss_ppm: of(&[0, 5, 999_999]) as u32,
            time_per_pdu: Service::from_nanos(of(&times)),
        };
        let picos = of(&[0, 800, 1_000_000_000]);
        let startup = Duration::from_nanos(of(&costs));
        let sender = Sender {
            link: Link::with_picos(startup, picos).expect("valid"),
            costs: SendCosts {
                switch: Service::from_nanos(of(&costs)),
                cache: Service::from_nanos(of(&costs)),
                first_packet: Service::from_nanos(of(&costs)),
                packet: Service::from_nanos(of(&costs)),
                link_scheduling: Service::from_nanos(of(&costs)),
            },
            packetisation: Packetisation::new(of(&bytes) as u32, of(&[1, u32::MAX.into()]) as u32)
                .expect("valid"),
            link_scheduling: LinkScheduling::NAMES[of(&[0, 1]) as usize].1,
            best_effort: BestEffort::None,
        };
        let switch = Service::from_nanos(of(&costs));
        match map(&Stream::new(spec.clone()).expect("valid"), &sender, switch) {
            Ok(mapping) => {
                mapped += 1;
                assert_eq!(mapping.processing_delay + mapping.channel.delay_bound(), spec.delay);
            }
            Err(MappingError::Upcall(_) | MappingError::Channel(_)) => {
                panic!("seed {seed}: {spec:?}")
            }
            Err(_) => refused += 1,
        }
    }
    assert!(mapped > 100 && refused > 1_000, "{mapped} {refused}");
}
