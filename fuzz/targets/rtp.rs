//! Any datagrams at a line's port: never a panic, and every sample asked for is played.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_model::{Duration, Instant};
use punctual_modem::rtp::Receiver;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes;
    let mut now = Instant::ZERO;
    let mut receiver = Receiver::new(400);
    let (mut packets, mut asked) = (0, 0);
    while let Some((&[length, pause, play], rest)) = bytes.split_first_chunk() {
        let (packet, rest) = rest.split_at(rest.len().min(length.into()));
        bytes = rest;
        now += Duration::from_millis(u64::from(pause) * 10);
        let _ = receiver.packet(now, packet);
        packets += 1;
        let mut samples = [0; 255];
        receiver.play(&mut samples[..play.into()]);
        asked += u64::from(play);
        let stats = receiver.stats();
        assert_eq!(stats.accepted + stats.refused, packets);
        assert_eq!(stats.played.real + stats.played.concealed + stats.played.waiting, asked);
    }
});
