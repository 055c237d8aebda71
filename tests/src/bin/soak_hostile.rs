//! Runs hostile clients against one broker for a long time: `HOSTILE_SECONDS` is the duration
//! (3600), `HOSTILE_SEED` the first seed (1), `HOSTILE_WITHOUT` leaves out kinds of action, and
//! `HOSTILE_BOUNDS=loose` asks for no more than the tests do.
//!
//! Needs root privileges and, unless the bounds are loose, an otherwise idle host: honest clients
//! are owed an answer within 50 ms, and half of the answers within 5 ms. A seed is not judgeable if
//! the only violations were long waits and a CPU itself stalled for longer than an answer may take.
//! Exit codes: 0 all promises held, 1 something did not hold, 3 this host cannot run it, 4 no seed
//! was judgeable.

use std::process::ExitCode;

use punctual_linux::clock;
use punctual_linux::host::cpus_online;
use punctual_model::Duration;
use system_tests::hostile::broker::{Broker, CONFIG};
use system_tests::hostile::model::{Bounds, Broken, Round};
use system_tests::hostile::{self, number_from_environment};
use system_tests::stalls::Witness;

/// How long the clients act in one seed.
const ROUND: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    if hostile::play() {
        return ExitCode::SUCCESS;
    }
    if !hostile::possible() {
        return ExitCode::from(3);
    }
    let Some(broker) = Broker::start_with_subordinate_users(CONFIG) else {
        return ExitCode::from(3);
    };
    let before = broker.holds_with_no_client();
    let seconds = number_from_environment("HOSTILE_SECONDS", 3_600);
    let first = number_from_environment("HOSTILE_SEED", 1);
    let bounds = match std::env::var("HOSTILE_BOUNDS").as_deref() {
        Err(_) | Ok("tight") => Bounds::TIGHT,
        Ok("loose") => Bounds::FUNCTIONAL,
        Ok(other) => panic!("HOSTILE_BOUNDS is tight or loose, not {other:?}"),
    };
    let witnesses: Vec<_> = (0..cpus_online()).map(Witness::of).collect();
    let stalls = || witnesses.iter().map(Witness::stood_still).max().unwrap_or_default();
    let until = clock::now() + Duration::from_secs(seconds);
    let (mut rounds, mut broken, mut unknown) = (0, 0, 0);
    let (mut answers, mut worst_ms, mut delay_ms) = (0, 0, 0);
    while clock::now() < until {
        let round = Round {
            seed: first + rounds,
            length: ROUND,
            users: 4,
            without: std::env::var("HOSTILE_WITHOUT").unwrap_or_default(),
            bounds,
        };
        rounds += 1;
        let stalls_before = stalls();
        let outcome = round.run(&broker, before);
        let stalled_ms = stalls().saturating_sub(stalls_before).as_nanos() / 1_000_000;
        match outcome {
            Ok(seen) => {
                answers += seen.asked.answered;
                worst_ms = seen.asked.worst_ms.max(worst_ms);
                delay_ms = seen.sent.delay_ms.max(delay_ms);
                println!(
                    "seed {}: {} actions of {} processes; {} answers, half within {} us, all within \
                     {} ms (the client itself waited {} ms for a CPU); each message within {} ms; a CPU \
                     stood still for {stalled_ms} ms in all",
                    round.seed,
                    seen.actions,
                    seen.lives,
                    seen.asked.answered,
                    seen.asked.median_us,
                    seen.asked.worst_ms,
                    seen.asked.own_part_ms,
                    seen.sent.delay_ms,
                );
            }
            Err(Broken { is_late: true, why }) if stalled_ms > bounds.worst_ms => {
                unknown += 1;
                let head: Vec<&str> =
                    why.lines().take_while(|line| *line != "last actions:").collect();
                println!(
                    "{}\nnot judgeable: a CPU stood still for {stalled_ms} ms in all",
                    head.join("\n")
                );
            }
            Err(Broken { why, .. }) => {
                broken += 1;
                println!("{why}\na CPU stood still for {stalled_ms} ms in all");
            }
        }
    }
    println!(
        "{rounds} seeds from {first}, {broken} broken, {unknown} not judgeable; in the others {answers} answers \
         within {worst_ms} ms, each message within {delay_ms} ms"
    );
    ExitCode::from(if broken > 0 {
        1
    } else if unknown == rounds {
        4
    } else {
        0
    })
}
