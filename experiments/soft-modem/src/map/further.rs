//! The study's future work (§7): several modems on one driver, a modem and an audio player each
//! reserved, two CPUs, and a callback beside modems in interrupt context.

use punctual_analysis::Steps;
use punctual_analysis::supply::timetable::{Built, Limits, build};
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_policy::timetable;
use punctual_sim::processor::{Part, Tabled, Whole};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

use crate::map::judge::{CALLS, LENGTH};
use crate::map::own::{Least, least};
use crate::virtual_time::driver::{Call, Card, Device, Outcome, RING, run};
use crate::virtual_time::service::Turns;

/// The largest number of modems tried on one driver: seven need more than a CPU.
const MOST_MODEMS: u32 = 7;

/// The periods tried for a driver of several modems.
const PERIODS: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(8)];

/// The least X for each number of modems, card and period.
pub struct Several {
    found: Vec<(u32, [[Least; 2]; 2])>,
}

impl Several {
    /// Searches with all threads.
    pub fn search(workers: &Workers) -> Self {
        let counts: Vec<u32> = (1..=MOST_MODEMS).collect();
        let found = workers.map("several modems", &counts, |&lines| {
            let of = |card, period| least(&Device { lines, ..Device::of_the_study(card) }, period);
            let cards = [Card::Latch, Card::Ring(RING)];
            (lines, cards.map(|card| PERIODS.map(|period| of(card, period))))
        });
        Self { found }
    }

    /// Returns a row for each number of modems.
    pub fn sheet(&self) -> Sheet {
        let row = |(lines, cards): &(u32, [[Least; 2]; 2])| {
            let work = Device::of_the_study(Card::Latch);
            let share = work.work.as_nanos() * u64::from(*lines) * 1_000_000;
            let mut row = vec![
                Value::Count(*lines as usize),
                Value::Share(Some(share.div_ceil(work.period.as_nanos()))),
            ];
            for found in cards.iter().flatten() {
                row.push(Value::Time(found.simulated.map(Service::as_nanos)));
                row.push(Value::Time(found.proven.map(Service::as_nanos)));
            }
            row
        };
        Sheet {
            name: "several-modems",
            columns: &[
                ("modems", "modems"),
                ("need_ppm", "need"),
                ("latch_4ms_simulated_ns", "latch, Y = 4 ms: least X"),
                ("latch_4ms_proven_ns", "proven"),
                ("latch_8ms_simulated_ns", "Y = 8 ms"),
                ("latch_8ms_proven_ns", "proven"),
                ("ring_4ms_simulated_ns", "ring, Y = 4 ms"),
                ("ring_4ms_proven_ns", "proven"),
                ("ring_8ms_simulated_ns", "Y = 8 ms"),
                ("ring_8ms_proven_ns", "proven"),
            ],
            rows: self.found.iter().map(row).collect(),
        }
    }
}

/// Returns the start delay of a 1 ms callback at top priority while modems work in interrupt
/// context on its CPU. On another CPU, or at a priority below the callback, they do not delay it.
pub fn callbacks() -> Sheet {
    let quantile = |sorted: &[u64], percent: usize| {
        Value::Time(sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied())
    };
    let row = |(context, modems): (&str, u64)| {
        let mut late = lateness(modems);
        late.sort_unstable();
        vec![
            Value::Text(context.into()),
            Value::Count(modems as usize),
            quantile(&late, 50),
            quantile(&late, 99),
            Value::Time(late.last().copied()),
        ]
    };
    Sheet {
        name: "callbacks",
        columns: &[
            ("context", "modems run"),
            ("modems", "modems on the callback's CPU"),
            ("p50_ns", "p50"),
            ("p99_ns", "p99"),
            ("max_ns", "max"),
        ],
        rows: [
            ("in a thread below it, or reserved", 0),
            ("in interrupts of another CPU", 0),
            ("in interrupts of its CPU", 1),
            ("in interrupts of its CPU", 2),
            ("in interrupts of its CPU", 4),
        ]
        .into_iter()
        .map(row)
        .collect(),
    }
}

/// Computes the delay from release to start of each callback of a call, with `modems` served in
/// each interrupt.
fn lateness(modems: u64) -> Vec<u64> {
    let modem = Device::of_the_study(Card::Latch);
    let (period, work) = (modem.period.as_nanos(), modem.work.as_nanos() * modems);
    // Shifted from the millisecond by an amount that does not divide the period, so that all phases
    // occur.
    let releases = (0..LENGTH.as_nanos() / 1_000_000).map(|at| at * 1_000_000 + at * 317 % 500_000);
    releases.map(|release| work.saturating_sub(release % period)).collect()
}

/// A client with a device to serve.
#[derive(Clone, Debug)]
struct Client {
    name: &'static str,
    device: Device,
    /// Its reservation; `None` for an ordinary thread.
    reservation: Option<Reservation>,
}

fn reserved(text: &str) -> Option<Reservation> {
    Some(text.parse().expect("a reservation of this file"))
}

fn modem(text: &str) -> Client {
    Client { name: "modem", device: Device::of_the_study(Card::Latch), reservation: reserved(text) }
}

/// A player that fills two buffers of 20 ms in turn: a buffer not begun before the next interrupt
/// is audibly lost.
fn audio(text: &str) -> Client {
    let device = Device {
        period: Duration::from_millis(20),
        batch: 882,
        work: Service::from_millis(3),
        piece: 882,
        lines: 1,
        card: Card::Latch,
    };
    Client { name: "audio player", device, reservation: reserved(text) }
}

fn cases() -> Vec<(&'static str, usize, Vec<Client>)> {
    let many = |modems: usize| {
        let mut clients = vec![audio("4ms/20ms")];
        clients.extend((0..modems).map(|_| modem("2ms/8ms")));
        clients
    };
    let ordinary = |client: Client| Client { reservation: None, ..client };
    vec![
        (
            "modem and player, ordinary, beside a spinner",
            1,
            vec![ordinary(modem("1ms/1ms")), ordinary(audio("1ms/1ms"))],
        ),
        ("modem and player, reserved", 1, vec![modem("2ms/13ms"), audio("4ms/20ms")]),
        ("the modem's reservation too small", 1, vec![modem("2ms/15ms"), audio("4ms/20ms")]),
        ("the player's reservation too small", 1, vec![modem("2ms/13ms"), audio("2ms/20ms")]),
        ("3 modems and a player", 1, many(3)),
        ("4 modems and a player", 1, many(4)),
        ("4 modems and a player", 2, many(4)),
        ("7 modems and a player", 2, many(7)),
        ("8 modems and a player", 2, many(8)),
    ]
}

/// Reservations and their CPUs.
struct Placed {
    /// One table for each CPU in use.
    tables: Vec<Built>,
    /// The CPU of each reserved client, and its owner number there.
    places: Vec<(usize, u32)>,
}

/// Puts each client on the first CPU that has room for it. If none has, returns the refusal of the
/// last.
fn place(clients: &[Client], cpus: usize) -> Result<Placed, String> {
    let mut lists: Vec<Vec<Reservation>> = vec![Vec::new(); cpus];
    let mut places = Vec::new();
    for reservation in clients.iter().filter_map(|client| client.reservation) {
        let mut refusal = String::new();
        let fits = lists.iter().position(|list| {
            let with: Vec<Reservation> = list.iter().copied().chain([reservation]).collect();
            build(&with, Limits::default(), &mut Steps::default())
                .map_err(|why| refusal = why.to_string())
                .is_ok()
        });
        let cpu = fits.ok_or(refusal)?;
        places.push((cpu, lists[cpu].len() as u32));
        lists[cpu].push(reservation);
    }
    let built = lists.iter().filter(|list| !list.is_empty());
    let built = built.map(|list| {
        build(list, Limits::default(), &mut Steps::default()).map_err(|why| why.to_string())
    });
    Ok(Placed { tables: built.collect::<Result<_, _>>()?, places })
}

/// Runs ten calls of one client, with interrupts at a different phase to its slots each time.
fn calls(client: &Client, run_once: impl Fn(Call) -> Outcome) -> (usize, u64) {
    let period = client.device.period;
    let outcomes: Vec<Outcome> = (0..CALLS)
        .map(|at| {
            run_once(Call {
                start: Instant::ZERO + period * at / CALLS,
                interrupts: LENGTH / period,
                give_up_ppm: 1_000_000,
                repeats_after: None,
            })
        })
        .collect();
    let intact = outcomes.iter().filter(|outcome| outcome.is_intact()).count();
    (intact, outcomes.iter().map(Outcome::lost_ppm).max().unwrap_or(0))
}

/// Simulates clients beside each other, on one CPU and on two.
pub fn together() -> Sheet {
    let mut rows = Vec::new();
    for (case, cpus, clients) in cases() {
        let head = |client: &str, reserved: String, cpu: String| {
            vec![
                Value::Text(case.into()),
                Value::Count(cpus),
                Value::Text(client.into()),
                Value::Text(reserved),
                Value::Text(cpu),
            ]
        };
        let refused = |why: String| {
            let mut row = head("all", "-".into(), "-".into());
            row.extend([Value::Text(why), Value::Text("-".into()), Value::Share(None)]);
            row
        };
        let Placed { tables, places } = match place(&clients, cpus) {
            Ok(placed) => placed,
            Err(why) => {
                rows.push(refused(why));
                continue;
            }
        };
        let mut places = places.into_iter();
        let mut told: Vec<Vec<Value>> = Vec::new();
        for client in &clients {
            let others = clients.len() as u32;
            let (cpu, found) = match client.reservation {
                // All of them and a spinner take turns.
                None => ("0".to_owned(), {
                    let turns = Turns { competitors: others, ..Turns::OF_THE_STUDY };
                    calls(client, |call| run(&client.device, &mut turns.clone(), call))
                }),
                Some(_) => {
                    let (cpu, owner) = places.next().expect("a place for each reservation");
                    let table = &tables[cpu].table;
                    let found = calls(client, |call| {
                        let turns = timetable::Turns::new(table.clone(), Instant::ZERO);
                        let own = Part::Slots(owner);
                        let mut slots = Tabled::new(Whole, Some(turns), own, Service::ZERO);
                        run(&client.device, &mut slots, call)
                    });
                    (cpu.to_string(), found)
                }
            };
            let reserved = client.reservation.map_or("no".into(), |one| one.to_string());
            let mut row = head(client.name, reserved, cpu);
            let (intact, lost) = found;
            row.extend([
                Value::Text("yes".into()),
                Value::Text(format!("{intact} of {CALLS}")),
                Value::Share(Some(lost)),
            ]);
            // Equal clients with equal results on one CPU share a row.
            if !told.contains(&row) {
                told.push(row);
            }
        }
        rows.extend(told);
    }
    Sheet {
        name: "together",
        columns: &[
            ("case", "case"),
            ("cpus", "CPUs"),
            ("client", "client"),
            ("reserved", "reserved"),
            ("cpu", "on CPU"),
            ("fits", "fits"),
            ("intact", "calls intact"),
            ("most_lost_ppm", "most lost"),
        ],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_waits_for_what_is_left_of_the_interrupt() {
        for modems in [0, 1, 4] {
            let late = lateness(modems);
            let most = 1_840_000 * modems;
            assert_eq!(late.len(), 37_000);
            let max = late.iter().max().copied().expect("some");
            assert!(max <= most && max >= most - most / 50, "{modems}: {max}");
        }
    }

    #[test]
    fn clients_admitted_together_are_served_if_each_reservation_is_enough() {
        for (case, cpus, clients) in cases() {
            let Ok(Placed { tables, places }) = place(&clients, cpus) else {
                assert!(clients.len() * 25 > cpus * 95, "{case} fits");
                continue;
            };
            assert!(tables.len() <= cpus);
            for (cpu, owner) in places {
                let mut slots = tables[cpu].table.slots().iter();
                assert!(slots.any(|slot| slot.owner == owner), "{case}");
            }
        }
        let row = |sheet: &Sheet, case: &str, client: &str| {
            let found = sheet.rows.iter().find(|row| {
                row[0] == Value::Text(case.into()) && row[2] == Value::Text(client.into())
            });
            found.map(|row| row[6].clone())
        };
        let sheet = together();
        let ten = Some(Value::Text("10 of 10".into()));
        assert_eq!(row(&sheet, "modem and player, reserved", "modem"), ten);
        assert_eq!(row(&sheet, "the modem's reservation too small", "audio player"), ten);
        assert_eq!(row(&sheet, "the player's reservation too small", "modem"), ten);
        assert_ne!(row(&sheet, "the modem's reservation too small", "modem"), ten);
        assert_ne!(row(&sheet, "the player's reservation too small", "audio player"), ten);
    }
}
