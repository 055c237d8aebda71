//! Tests that channels policed by credits, and admitted beside each other for what credits let
//! pass, are never late.

use punctual_analysis::Steps;
use punctual_analysis::channel::egress::Egress;
use punctual_model::Service;
use punctual_model::channel::{Channel as Asked, Policing, Sensitivity};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// The way in which a client uses its credits.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// All of an interval at its end and all of the next at its beginning, again and again.
    AtBorders,
    /// As much as its ring holds, always.
    Flood,
    /// Some, now and then.
    Drawn,
}

struct Writer {
    client: Client,
    key: u32,
    bytes: u32,
    spacing: u64,
    pdus: u64,
    habit: Habit,
    /// The time at which it writes next.
    next: u64,
    turn: u64,
}

impl Writer {
    /// Writes, and sets when it does again.
    fn write(
        &mut self,
        sender: &mut Sender<Faulty<NullDevice<Log>, Script>>,
        rng: &mut ChaCha8Rng,
    ) {
        let interval = self.pdus * self.spacing;
        let (most, next) = match self.habit {
            // The two sides of every second border, a nanosecond apart.
            Habit::AtBorders if self.turn.is_multiple_of(2) => (self.pdus, self.next + 1),
            Habit::AtBorders => (self.pdus, self.next + 2 * interval - 1),
            Habit::Flood => (u64::MAX, self.next + self.spacing / 3 + 1),
            Habit::Drawn => (
                rng.random_range(0..=2 * self.pdus),
                self.next + rng.random_range(1..=2 * interval),
            ),
        };
        for _ in 0..most {
            let Ok(Some(slot)) = self.client.puts.claim() else { break };
            slot.push(self.bytes as usize, self.next);
            if self.client.puts.publish() == Wake::Ring {
                sender.look(ns(self.next), self.key);
            }
        }
        (self.turn, self.next) = (self.turn + 1, next);
    }
}

/// Draws channels; if they are admitted, lets them run. Returns the longest delay over its bound,
/// in thousandths.
fn run_drawn(seed: u64) -> Option<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let link = Link::new(Duration::from_nanos(rng.random_range(0..300)), rng.random_range(1..5));
    let link = link.expect("valid");
    let cut = Packetisation::new(rng.random_range(50..=400), rng.random_range(1..=3));
    let cut = cut.expect("valid");
    let count = rng.random_range(1..=5_u32);
    let load = rng.random_range(0.2..1.0);
    let (mut asked, mut sensitivities) = (Vec::new(), Vec::new());
    for at in 0..count {
        let bytes = rng.random_range(1..=1_000);
        let work = link.transmission_time(cut.packet_bytes()) * u64::from(cut.packets_of(bytes));
        let spacing = (work.as_nanos() as f64 * f64::from(count) / load) as u64;
        let declared = LinearBounded::fixed(bytes, Duration::from_nanos(spacing), 1);
        let sensitivity = Sensitivity::NAMES[rng.random_range(0..3)].1;
        let covering = Policing::Credits(sensitivity).covering(declared.expect("valid"));
        let delay = Duration::from_nanos((spacing as f64 * rng.random_range(0.4..3.0)) as u64);
        let traffic = covering.expect("valid").into();
        asked.push(Asked::new(format!("{at}"), &traffic, delay).expect("valid"));
        sensitivities.push(sensitivity);
    }
    let whole = "1ms/1ms".parse().expect("valid");
    let egress = Egress::new(link, cut, Service::ZERO, whole, Duration::ZERO).expect("fast enough");
    let (mut steps, mut for_bounds) = (Steps::default(), Steps::default());
    if !egress.all_in_time(&asked, &[], &mut steps) {
        return None;
    }
    let proven = egress.delays(&asked, &[], &mut steps, &mut for_bounds);
    let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, count);
    let device = NullDevice::new(link, u32::MAX, Duration::MAX, Log::default());
    let script: Script = no_fault;
    let mut sender = Sender::new(egress, cut, count, Faulty::new(device, script));
    let mut writers = Vec::new();
    for ((key, channel), sensitivity) in (0..).zip(&asked).zip(sensitivities) {
        let terms = Terms {
            arrivals: channel.arrivals(),
            promise: Promise::RealTime { rank: Rank(0), delay_bound: channel.delay_bound() },
            too_early: if rng.random_bool(0.5) { TooEarly::Discard } else { TooEarly::Wait },
        };
        let (client, opened) = Client::with_slots(256, terms, Framing::Fragments);
        let opened = opened.with_credits(ns(0), sensitivity);
        sender.open(ns(0), key, opened).expect("room");
        let spacing = channel.arrivals().min_inter_arrival().as_nanos();
        let pdus = u64::from(sensitivity.pdus());
        let habit = [Habit::AtBorders, Habit::Flood, Habit::Drawn][rng.random_range(0..3)];
        let next = match habit {
            Habit::AtBorders => pdus * spacing - 1,
            _ => rng.random_range(0..spacing),
        };
        let bytes = channel.arrivals().max_message();
        writers.push(Writer { client, key, bytes, spacing, pdus, habit, next, turn: 0 });
    }
    let now = Cell::new(0);
    let longest = writers.iter().map(|writer| writer.pdus * writer.spacing).max()?;
    while let Some(writer) = writers.iter_mut().min_by_key(|writer| writer.next) {
        if writer.next > 4 * longest {
            break;
        }
        run(&mut sender, &now, writer.next - 1);
        now.set(now.get().max(writer.next));
        writer.write(&mut sender, &mut rng);
        run(&mut sender, &now, now.get());
    }
    run(&mut sender, &now, 8 * longest);
    let mut closest = 0;
    for ((writer, channel), proven) in writers.iter().zip(&asked).zip(proven) {
        let account = writer.client.account();
        let what = format!("seed {seed}, channel {}, {:?}: {account:?}", writer.key, writer.habit);
        assert!(account.sent > 0 && account.late == 0, "{what}");
        assert_eq!(account.losses.total(), account.losses.too_early, "{what}");
        if matches!(writer.habit, Habit::AtBorders) {
            // It takes all that its credits allow, and loses none.
            assert_eq!((account.losses.total(), account.not_conforming), (0, 0), "{what}");
        }
        let bound = channel.delay_bound().as_nanos();
        let early = account.worst_lateness_nanos.unwrap_or(i64::MIN).unsigned_abs().min(bound);
        let proven = proven.bound().expect("in time").as_nanos();
        assert!(bound - early <= proven, "{what}");
        closest = closest.max((bound - early) * 1_000 / proven);
    }
    Some(closest)
}

#[test]
fn no_message_of_an_admitted_channel_with_credits_is_late() {
    let runs: Vec<u64> = (0..300).filter_map(run_drawn).collect();
    let closest = runs.iter().max().expect("some are admitted");
    println!("{} admitted, the longest delay over its bound {closest} ‰", runs.len());
    assert!(runs.len() > 80, "{} admitted", runs.len());
    // A bound that nothing comes near would be no test.
    assert!(*closest > 800, "{closest}");
}
