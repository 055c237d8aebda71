//! Single rules of the protocol, frame by frame: the answer to each frame. Random bytes as frames
//! at any time cause no panic, no byte out of place, no deadlock.

use punctual_model::{Duration, Instant};
use punctual_modem::lapm::frame::{Head, Kind};
use punctual_modem::lapm::hdlc::Deframer;
use punctual_modem::lapm::xid::Limits;
use punctual_modem::lapm::{Closed, Link, LinkState, Parameters};
use punctual_modem::modem::Role;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const NOW: Instant = Instant::from_nanos(7);

fn own(role: Role) -> Link {
    let parameters = Parameters { negotiate: false, ..Parameters::for_rate(2_400) };
    Link::new(NOW, role, parameters)
}

fn says(link: &mut Link) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| link.next_frame(NOW).map(|frame| frame.bytes().to_vec())).collect()
}

/// Returns a link of the answering end after SABME and UA.
fn connected() -> Link {
    let mut link = own(Role::Answering);
    assert!(says(&mut link).is_empty(), "it waits to be asked");
    link.frame(NOW, &[0x03, 0x7f]);
    assert_eq!(link.state(), LinkState::Connected);
    assert_eq!(says(&mut link), [[0x01 | 0x02, 0x73]]);
    link
}

fn information(ns: u8, nr: u8, text: &[u8]) -> Vec<u8> {
    let head = Head { command: true, kind: Kind::I { ns, nr }, poll: false };
    head.write(Role::Calling, text).bytes().to_vec()
}

#[test]
fn the_calling_end_begins_with_sabme_and_is_connected_by_ua() {
    let mut link = own(Role::Calling);
    assert_eq!(says(&mut link), [[0x03, 0x7f]]);
    assert!(says(&mut link).is_empty(), "once, until T401");
    link.handle_timeout(link.next_timeout().expect("T401 runs"));
    assert_eq!(says(&mut link), [[0x03, 0x7f]]);
    link.frame(NOW, &[0x03, 0x63]);
    assert_eq!(link.state(), LinkState::Establishing, "UA without F answers nothing");
    link.frame(NOW, &[0x03, 0x73]);
    assert_eq!(link.state(), LinkState::Connected);
}

#[test]
fn an_end_that_is_refused_says_so() {
    let mut link = own(Role::Calling);
    says(&mut link);
    link.frame(NOW, &[0x03, 0x1f]);
    assert_eq!(link.state(), LinkState::Closed(Closed::Refused));
}

#[test]
fn a_gap_is_answered_with_one_rej_and_what_comes_meanwhile_is_discarded() {
    let mut link = connected();
    link.frame(NOW, &information(0, 0, b"a"));
    link.frame(NOW, &information(2, 0, b"c"));
    link.frame(NOW, &information(3, 0, b"d"));
    // REJ, response, N(R) = 1; and no separate RR.
    assert_eq!(says(&mut link), [[0x03, 0x09, 0x02]]);
    link.frame(NOW, &information(1, 0, b"b"));
    link.frame(NOW, &information(2, 0, b"c"));
    assert_eq!(says(&mut link), [[0x03, 0x01, 0x06]], "one RR for both");
    let mut room = [0; 10];
    assert_eq!(link.read(&mut room), 3);
    assert_eq!(&room[..3], b"abc");
    assert_eq!(link.stats().out_of_order, 2);
}

#[test]
fn a_frame_lost_again_is_asked_for_again_without_waiting() {
    let mut link = connected();
    for ns in [1, 2, 3] {
        link.frame(NOW, &information(ns, 0, b"x"));
    }
    assert_eq!(says(&mut link), [[0x03, 0x09, 0x00]], "one REJ for all of them");
    // The far end went back to 0, and 0 was lost once more.
    link.frame(NOW, &information(1, 0, b"x"));
    assert_eq!(says(&mut link), [[0x03, 0x09, 0x00]]);
    link.frame(NOW, &information(2, 0, b"x"));
    assert!(says(&mut link).is_empty());
    link.frame(NOW, &information(0, 0, b"x"));
    assert_eq!(says(&mut link), [[0x03, 0x01, 0x02]]);
}

#[test]
fn a_frame_that_never_arrives_ends_the_link_although_the_far_end_answers() {
    let mut link = connected();
    let most = Parameters::for_rate(2_400).repeats;
    assert_eq!(link.write(b"x"), 1);
    let mut now = NOW;
    let mut sent = 0;
    while link.state() == LinkState::Connected {
        let frame = link.next_frame(now).expect("a frame, or a poll").bytes().to_vec();
        match frame[..] {
            // Answer the poll: nothing has come.
            [0x01, 0x01, 0x01] => link.frame(now, &[0x01, 0x01, 0x01]),
            [0x01, 0x00, 0x00, b'x'] => {
                sent += 1;
                now = link.next_timeout().expect("T401 runs");
                link.handle_timeout(now);
            }
            [0x01, 0x53] => {}
            _ => panic!("{frame:02x?}"),
        }
    }
    assert_eq!(link.state(), LinkState::Closed(Closed::LineLost));
    assert_eq!(sent, 1 + most);
    assert_eq!(link.unacknowledged(), 1, "and it is known to be so");
}

#[test]
fn a_poll_is_answered_at_once_with_the_final_bit() {
    let mut link = connected();
    link.frame(NOW, &[0x03, 0x01, 0x01]);
    assert_eq!(says(&mut link), [[0x03, 0x01, 0x01]]);
    link.frame(NOW, &[0x01, 0x01, 0x01]);
    assert!(says(&mut link).is_empty(), "a response is not answered");
}

#[test]
fn rej_sends_again_from_there_and_acknowledges_what_was_before() {
    let mut link = connected();
    assert_eq!(link.write(&[7; 300]), 300);
    let sent = says(&mut link);
    assert_eq!(sent.iter().map(|frame| frame[1] >> 1).collect::<Vec<_>>(), [0, 1, 2]);
    link.frame(NOW, &[0x01, 0x09, 0x02]);
    assert_eq!(says(&mut link), sent[1..], "the same bytes under the same numbers");
    assert_eq!(link.unacknowledged(), 300 - 128);
    link.frame(NOW, &[0x01, 0x01, 0x06]);
    assert_eq!(link.unacknowledged(), 0);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_ends_the_link() {
    let mut link = connected();
    assert_eq!(link.write(b"x"), 1);
    says(&mut link);
    link.frame(NOW, &[0x01, 0x01, 0x04]);
    assert_eq!(link.state(), LinkState::Closed(Closed::ProtocolError));
    assert_eq!(says(&mut link), [[0x01, 0x53]], "and it says DISC");
}

#[test]
fn rnr_stops_the_sender_and_rr_lets_it_go_on() {
    let mut link = connected();
    link.frame(NOW, &[0x01, 0x05, 0x00]);
    assert_eq!(link.write(&[1; 100]), 100);
    assert!(says(&mut link).is_empty());
    let later = link.next_timeout().expect("it asks whether RR was lost");
    assert!(later > NOW);
    link.handle_timeout(later);
    let poll = link.next_frame(later).expect("a poll");
    assert_eq!(poll.bytes(), [0x01, 0x01, 0x01]);
    link.frame(later, &[0x01, 0x05, 0x01]);
    assert!(link.next_frame(later).is_none(), "still busy");
    link.frame(later, &[0x01, 0x01, 0x00]);
    assert_eq!(link.next_frame(later).map(|frame| frame.bytes().len()), Some(103));
}

#[test]
fn beginning_again_is_harmless_before_anything_was_carried_and_the_end_afterwards() {
    let mut link = connected();
    assert_eq!(link.write(b"hello"), 5);
    assert_eq!(says(&mut link).len(), 1);
    link.frame(NOW, &[0x03, 0x7f]);
    let again = says(&mut link);
    assert_eq!(again[0], [0x03, 0x73]);
    assert_eq!(again[1], [&[0x01, 0x00, 0x00][..], b"hello"].concat());
    link.frame(NOW, &[0x01, 0x01, 0x02]);
    link.frame(NOW, &[0x03, 0x7f]);
    assert_eq!(link.state(), LinkState::Closed(Closed::PeerReset));
    assert_eq!(says(&mut link), [[0x03, 0x1f]]);
}

#[test]
fn disc_is_answered_with_ua_and_what_had_come_can_still_be_read() {
    let mut link = connected();
    link.frame(NOW, &information(0, 0, b"last words"));
    link.frame(NOW, &[0x03, 0x53]);
    assert_eq!(link.state(), LinkState::Closed(Closed::ByPeer));
    assert_eq!(says(&mut link), [[0x03, 0x73]]);
    assert_eq!(link.readable(), 10);
    link.frame(NOW, &[0x03, 0x53]);
    assert_eq!(says(&mut link), [[0x03, 0x1f]], "DM: there is nothing to end");
}

#[test]
fn breaks_tests_and_selective_rejects_change_nothing() {
    let mut link = connected();
    for frame in [&[0x03, 0x03, 0x40][..], &[0x03, 0xe3], &[0x01, 0x0d, 0x00], &[0x03, 0xf3, 1]] {
        link.frame(NOW, frame);
    }
    assert!(says(&mut link).is_empty());
    assert_eq!(link.stats().not_understood, 4);
    assert_eq!(link.state(), LinkState::Connected);
}

#[test]
fn an_idle_link_asks_after_t403_and_is_content_with_an_answer() {
    let mut link = connected();
    let due = link.next_timeout().expect("T403");
    assert_eq!(due, NOW + Duration::from_secs(30));
    for round in 1..50_u64 {
        let due = NOW + Duration::from_secs(30) * round;
        assert_eq!(link.next_timeout(), Some(due));
        assert_eq!(link.next_frame(due).map(|frame| frame.bytes().to_vec()), Some(vec![1, 1, 1]));
        assert!(link.next_frame(due).is_none(), "once");
        link.frame(due, &[0x01, 0x01, 0x01]);
        assert_eq!(link.state(), LinkState::Connected);
    }
}

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
