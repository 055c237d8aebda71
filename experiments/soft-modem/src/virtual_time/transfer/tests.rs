//! Calls that must succeed, calls that must fail, and repeated calls that must be equal.

use super::*;
use punctual_model::Reservation;
use punctual_modem::card::RING;

fn transfer(context: Context, card: Card, modulation: &'static str, bytes: usize) -> Transfer {
    let mut file = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(99).fill_bytes(&mut file);
    Transfer {
        context,
        card,
        modulation,
        file: file.into(),
        seed: 1,
        patience: Duration::from_secs(120),
    }
}

fn reserved(text: &str, soft: bool) -> Context {
    let reservation: Reservation = text.parse().expect("valid");
    Context::Reserved { reservation, soft }
}

#[test]
fn in_time_the_file_arrives_over_either_card_and_modulation() {
    for card in [Card::Latch, Card::Ring(RING as u32)] {
        for (modulation, bytes) in [("V22B", 2_000), ("V21", 300)] {
            for context in [Context::Interrupt, Context::Deferred, Context::RealTime] {
                let found = run(&transfer(context, card, modulation, bytes));
                let what = format!("{context:?} {card:?} {modulation}: {found:?}");
                assert!(found.took.is_some() && found.samples_lost == 0, "{what}");
            }
        }
    }
}

#[test]
fn a_reservation_carries_it_if_it_is_enough() {
    for (context, card, carried) in [
        (reserved("2ms/8ms", false), Card::Latch, true),
        (reserved("1ms/8ms", false), Card::Latch, false),
        (reserved("3ms/17ms", false), Card::Latch, false),
        (reserved("3ms/17ms", false), Card::Ring(RING as u32), true),
        (Context::Ordinary { competitors: 1 }, Card::Latch, false),
        (Context::Ordinary { competitors: 0 }, Card::Latch, true),
    ] {
        let found = run(&transfer(context, card, "V22B", 2_000));
        assert_eq!(found.took.is_some(), carried, "{context:?} {card:?}: {found:?}");
        assert_eq!(found.samples_lost == 0, carried, "{context:?} {card:?}: {found:?}");
    }
}

#[test]
fn a_seed_replays_the_call() {
    let of = |seed| {
        let context = reserved("2ms/14ms", true);
        run(&Transfer { seed, ..transfer(context, Card::Latch, "V21", 200) })
    };
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}
