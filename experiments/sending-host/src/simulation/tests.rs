//! Three packets of two channels, with every instant worked out by hand, in nanoseconds.

use alloc::vec::Vec;
use alloc::{format, vec};

use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, LinkScheduling, Packetisation, SendCosts, Sender,
};
use punctual_model::{Duration, Instant, Service};
use punctual_policy::queues::ServiceOrder;
use punctual_sim::egress::Exact;
use punctual_sim::egress::traffic::{Message, NotAccepted, Sent};

use super::sink::{Occupant, Sink, Totals};
use super::sources::{Backlog, Hog, HogPattern};
use super::{Setup, SetupError, run};

/// Returns a sender in which a change of handler takes 3, the first packet of a message 10, others
/// 7, link scheduling 4, and a packet is on the link for 5 and 1 a byte. Packets have 10 bytes, and
/// handlers yield after each.
fn sender(link_scheduling: LinkScheduling) -> Sender {
    Sender {
        link: Link::new(Duration::from_nanos(5), 1).expect("valid"),
        costs: SendCosts {
            switch: Service::from_nanos(2),
            cache: Service::from_nanos(1),
            first_packet: Service::from_nanos(10),
            packet: Service::from_nanos(7),
            link_scheduling: Service::from_nanos(4),
        },
        packetisation: Packetisation::new(10, 1).expect("valid"),
        link_scheduling,
        best_effort: BestEffort::None,
    }
}

fn channels() -> Vec<Channel> {
    let channel = |name: &str, bytes| {
        let traffic = LinearBounded::fixed(bytes, Duration::from_nanos(1_000), 1).expect("valid");
        Channel::new(name, &traffic.into(), Duration::from_nanos(500)).expect("valid")
    };
    vec![channel("urgent", 10), channel("other", 15)]
}

/// Returns sources in which the urgent channel's message of one packet comes at 20, the other's of
/// 10 and 5 bytes at 0.
fn sources() -> Vec<vec::IntoIter<Message>> {
    let one = |at, bytes| vec![Message { at: Instant::from_nanos(at), bytes }].into_iter();
    vec![one(20, 10), one(0, 15)]
}

/// A sink that joins adjoining stretches of one occupant.
#[derive(Default)]
struct Watch {
    occupied: Vec<(Occupant, u64, u64)>,
    left: Vec<(usize, u64)>,
}

impl Sink for Watch {
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        let (from, to) = (from.as_nanos(), to.as_nanos());
        match self.occupied.last_mut() {
            Some((last, _, end)) if *last == by && *end == from => *end = to,
            _ => self.occupied.push((by, from, to)),
        }
    }

    fn sent(&mut self, message: Sent) {
        self.left.push((message.channel, message.left.as_nanos()));
    }

    fn refused(&mut self, _: usize, _: Instant, _: NotAccepted) {
        panic!("both conform");
    }
}

fn watch(sender: &Sender, hogs: &[Hog], until: u64) -> (Watch, Totals) {
    let channels = channels();
    let setup = Setup {
        sender,
        channels: &channels,
        order: ServiceOrder::Rank,
        room: 2,
        backlogs: &[],
        hogs,
    };
    let mut watch = Watch::default();
    let totals = run(&setup, sources(), Exact, Instant::from_nanos(until), &mut watch);
    (watch, totals)
}

/// Returns the instants at which each count changes, found by ending a run after each instant: when
/// packets were made, and when they had left.
fn made_and_left(sender: &Sender, hogs: &[Hog], end: u64) -> (Vec<u64>, Vec<u64>) {
    let totals: Vec<Totals> = (0..=end + 1).map(|until| watch(sender, hogs, until).1).collect();
    let changes = |of: fn(&Totals) -> u64| {
        let grows = |at: &u64| of(&totals[*at as usize]) < of(&totals[*at as usize + 1]);
        (0..=end).filter(grows).collect()
    };
    (changes(|totals| totals.making.as_nanos()), changes(|totals| totals.packets))
}

use Occupant::{Channels, Hogs, Link as Scheduler};

/// 0 change, 3 first packet; 13 to the link, 17 on it. 17 second packet, made at 24: the link is
/// busy. 24 change to the urgent handler, 27 its packet. 32 the link is free, and only the second
/// packet waits; 36 on the link. The interrupt of 4 delays the urgent packet: made at 41. 46 the
/// link is free, 50 on it, until 65.
#[test]
fn o1_by_hand() {
    let sender = sender(LinkScheduling::InInterrupt);
    let (watch, totals) = watch(&sender, &[], u64::MAX);
    let occupied = [
        (Channels, 0, 13),
        (Scheduler, 13, 17),
        (Channels, 17, 32),
        (Scheduler, 32, 36),
        (Channels, 36, 41),
        (Scheduler, 46, 50),
    ];
    assert_eq!(watch.occupied, occupied);
    assert_eq!(watch.left, [(1, 46), (0, 65)]);
    assert_eq!(made_and_left(&sender, &[], 65), (vec![13, 24, 41], vec![32, 46, 65]));
    let expected = Totals {
        length: Duration::from_nanos(65),
        packets: 3,
        channel_bytes: 25,
        link_busy: Duration::from_nanos(15 + 10 + 15),
        making: Service::from_nanos(27),
        changing: Service::from_nanos(6),
        link_scheduling: Service::from_nanos(12),
        ..Totals::default()
    };
    assert_eq!(totals, expected);
}

/// 0 change, 3 first packet, 13 change to the thread, 16 link scheduling; 20 on the link, until 35.
/// The yield at 20 does not see the message that comes then: 20 change back, 23 second packet, made
/// at 30. The link is busy: 30 change to the urgent handler, 33 its packet. 35 the link is free,
/// and no handler yields. 43 change to the thread, which takes the urgent packet; 50 on the link,
/// until 65. 65 the thread ran last: link scheduling without a change; 69 on the link, until 79.
#[test]
fn o2_by_hand() {
    let sender = sender(LinkScheduling::InThread);
    let (watch, totals) = watch(&sender, &[], u64::MAX);
    let occupied = [
        (Channels, 0, 13),
        (Scheduler, 13, 20),
        (Channels, 20, 43),
        (Scheduler, 43, 50),
        (Scheduler, 65, 69),
    ];
    assert_eq!(watch.occupied, occupied);
    assert_eq!(watch.left, [(0, 65), (1, 79)]);
    assert_eq!(made_and_left(&sender, &[], 79), (vec![13, 30, 43], vec![35, 65, 79]));
    let expected = Totals {
        length: Duration::from_nanos(79),
        packets: 3,
        channel_bytes: 25,
        link_busy: Duration::from_nanos(40),
        making: Service::from_nanos(27),
        changing: Service::from_nanos(15),
        link_scheduling: Service::from_nanos(12),
        ..Totals::default()
    };
    assert_eq!(totals, expected);
}

/// As in O1, but the processor is taken in [30, 40): the urgent packet is begun at 27 and made at
/// 51; the link is free at 32, and nothing can serve it before 40; 44 on the link, until 54; 58 on
/// the link, until 73.
#[test]
fn a_hog_keeps_the_link_waiting() {
    let pattern = HogPattern::Periodic { first: Instant::from_nanos(30), late: Duration::ZERO };
    let (work, period) = (Service::from_nanos(10), Duration::from_nanos(1_000));
    let hogs = [Hog { work, period, pattern }];
    let sender = sender(LinkScheduling::InInterrupt);
    let (watch, totals) = watch(&sender, &hogs, u64::MAX);
    let occupied = [
        (Channels, 0, 13),
        (Scheduler, 13, 17),
        (Channels, 17, 30),
        (Hogs, 30, 40),
        (Scheduler, 40, 44),
        (Channels, 44, 51),
        (Scheduler, 54, 58),
    ];
    assert_eq!(watch.occupied, occupied);
    assert_eq!(watch.left, [(1, 54), (0, 73)]);
    assert_eq!(made_and_left(&sender, &hogs, 73), (vec![13, 24, 51], vec![32, 54, 73]));
    assert_eq!(totals.hogs, Service::from_nanos(10));
}

#[test]
fn setups_that_cannot_be_run_are_named() {
    let (sender, channels) = (sender(LinkScheduling::InInterrupt), channels());
    let setup = Setup {
        sender: &sender,
        channels: &channels,
        order: ServiceOrder::Rank,
        room: 2,
        backlogs: &[],
        hogs: &[],
    };
    assert_eq!(setup.check(2), Ok(()));
    assert_eq!(setup.check(3), Err(SetupError::Sources { sources: 3, channels: 2 }));
    let (first, pause) = (Instant::ZERO, Duration::ZERO);
    let backlog = |bytes, room| [Backlog { bytes, first, pause, room }];
    let with = |backlogs: &[Backlog]| Setup { backlogs, ..setup }.check(2);
    assert_eq!(with(&backlog(0, 9)), Err(SetupError::EmptyMessages { backlog: 0 }));
    let no_room = SetupError::NoRoom { backlog: 0, packets: 3, room: 2 };
    assert_eq!(with(&backlog(21, 2)), Err(no_room));
    assert_eq!(with(&backlog(20, 2)), Ok(()));
    assert_eq!(format!("{no_room}"), "backlog 0 has room for 2 packets, and a message has 3");
    let work = Service::from_nanos(1);
    let hog = Hog { work, period: Duration::ZERO, pattern: HogPattern::AtStarts };
    let refused = Setup { hogs: &[hog], ..setup }.check(2);
    assert_eq!(refused, Err(SetupError::NoPeriod { hog: 0 }));
}
