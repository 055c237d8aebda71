//! Calls: placed, answered, given up, lost, put on hold.

use punctual_model::Duration;
use punctual_modem::at::{
    Compressed, Connection, ErrorControl, LineEvent, Modulation, Order, TerminalGone,
};

use super::{Bench, CALL};

const GRACE: Duration = Duration::from_millis(125);

#[test]
fn a_call_made_comes_about_with_its_speed() {
    let call = |transmit_rate, receive_rate| Connection { transmit_rate, receive_rate, ..CALL };
    let cases = [
        ("X0V1", call(2400, 2400), "\r\nCONNECT\r\n"),
        ("X4V1", call(2400, 2400), "\r\nCONNECT 2400\r\n"),
        ("X1V1", call(300, 300), "\r\nCONNECT 300\r\n"),
        ("X4V1", call(75, 1200), "\r\nCONNECT 75TX/1200RX\r\n"),
        ("X0V0", call(2400, 2400), "1\r"),
        ("X4V0", call(2400, 2400), "10\r"),
        ("X4V0", call(300, 300), "1\r"),
        ("X4V0", call(1200, 75), "23\r"),
        ("X4V0", call(75, 1200), "22\r"),
        ("Q1", call(2400, 2400), ""),
        ("+ER=1", CALL, "\r\n+ER: LAPM\r\n\r\nCONNECT 2400\r\n"),
        (
            "+DR=1",
            Connection { compression: Compressed { sent: true, received: true }, ..CALL },
            "\r\n+DR: V42B\r\n\r\nCONNECT 2400\r\n",
        ),
        (
            "+DR=1",
            Connection { compression: Compressed { sent: false, received: true }, ..CALL },
            "\r\n+DR: V42B RD\r\n\r\nCONNECT 2400\r\n",
        ),
        (
            "+MR=1;+ER=1;+DR=1",
            Connection {
                modulation: Modulation::V21,
                transmit_rate: 300,
                receive_rate: 300,
                error_control: ErrorControl::None,
                compression: Compressed::default(),
            },
            "\r\n+MCR: V21\r\n+MRR: 300,300\r\n\r\n+ER: NONE\r\n\r\n+DR: NONE\r\n\r\nCONNECT 300\r\n",
        ),
    ];
    for (settings, connection, said) in cases {
        let mut bench = Bench::new();
        bench.types(&format!("AT{settings}\r"));
        assert_eq!(bench.types("ATDT0,1\r"), "", "{settings}: the answer is the call's");
        let [Order::Dial(number)] = &bench.orders()[..] else { panic!("{settings}") };
        assert_eq!(number.digits().collect::<String>(), "01");
        assert_eq!(number.pauses(), Duration::from_secs(2));
        assert!(bench.modem.is_connecting());
        assert_eq!(bench.event(LineEvent::Connected(connection)), said, "{settings}");
        assert!(bench.modem.is_online() && bench.modem.carrier_shown());
    }
}

#[test]
fn a_call_that_fails_says_why_as_far_as_x_lets_it() {
    let cases = [
        (LineEvent::Busy, ["NO CARRIER", "NO CARRIER", "NO CARRIER", "BUSY", "BUSY"]),
        (
            LineEvent::NoDialtone,
            ["NO CARRIER", "NO CARRIER", "NO DIALTONE", "NO CARRIER", "NO DIALTONE"],
        ),
        (LineEvent::NoAnswer, ["NO ANSWER"; 5]),
        (LineEvent::Lost, ["NO CARRIER"; 5]),
    ];
    for (event, words) in cases {
        for (x, words) in words.into_iter().enumerate() {
            let mut bench = Bench::new();
            bench.types(&format!("ATX{x}D1\r"));
            bench.orders();
            assert_eq!(bench.event(event), format!("\r\n{words}\r\n"), "X{x}");
            assert_eq!(bench.types("AT\r"), "\r\nOK\r\n");
            assert_eq!(bench.orders(), [], "the line freed itself");
        }
    }
    let mut bench = Bench::new();
    bench.types("ATV0\r");
    for (event, said) in [
        (LineEvent::Busy, "7\r"),
        (LineEvent::NoDialtone, "6\r"),
        (LineEvent::NoAnswer, "8\r"),
        (LineEvent::Lost, "3\r"),
    ] {
        bench.types("ATD1\r");
        assert_eq!(bench.event(event), said);
    }
}

#[test]
fn any_byte_gives_an_attempt_up_but_not_at_once() {
    for command in ["ATD1\r", "ATA\r"] {
        let mut bench = Bench::new();
        bench.types(command);
        assert_eq!(bench.orders().len(), 1);
        // The line feed after the carriage return.
        assert_eq!(bench.types("\n"), "");
        bench.wait(GRACE - Duration::from_nanos(1));
        assert_eq!(bench.types("x"), "", "{command:?}");
        bench.wait(Duration::from_nanos(1));
        assert_eq!(bench.types("x"), "\r\nNO CARRIER\r\n", "{command:?}");
        assert_eq!(bench.orders(), [Order::HangUp]);
        assert_eq!(bench.event(LineEvent::Connected(CALL)), "", "too late");
    }
}

#[test]
fn patience_ends_after_s7() {
    let mut bench = Bench::new();
    bench.types("ATS7=3D1\r");
    bench.orders();
    assert_eq!(bench.wait(Duration::from_secs(3) - Duration::from_nanos(1)), "");
    assert_eq!(bench.wait(Duration::from_nanos(1)), "\r\nNO CARRIER\r\n");
    assert_eq!(bench.orders(), [Order::HangUp]);
}

#[test]
fn s0_answers_at_the_ring_it_says_and_rings_are_forgotten_after_a_while() {
    let mut bench = Bench::new();
    bench.types("ATS0=3\r");
    let ring = |bench: &mut Bench| bench.event(LineEvent::Ring);
    assert_eq!(ring(&mut bench), "\r\nRING\r\n");
    bench.wait(Duration::from_secs(8));
    ring(&mut bench);
    assert_eq!(bench.types("ATS1?\r"), "\r\n002\r\n\r\nOK\r\n");
    bench.wait(Duration::from_secs(8) + Duration::from_nanos(1));
    assert_eq!(bench.types("ATS1?\r"), "\r\n000\r\n\r\nOK\r\n");
    for _ in 0..2 {
        ring(&mut bench);
        assert_eq!(bench.orders(), []);
        bench.wait(Duration::from_secs(6));
    }
    assert_eq!(ring(&mut bench), "\r\nRING\r\n");
    assert_eq!(bench.orders(), [Order::Answer]);
    assert_eq!(bench.event(LineEvent::Connected(CALL)), "\r\nCONNECT 2400\r\n");
    assert_eq!(ring(&mut bench), "", "engaged");
}

#[test]
fn without_s0_it_rings_until_answered() {
    let mut bench = Bench::new();
    for _ in 0..300 {
        assert_eq!(bench.event(LineEvent::Ring), "\r\nRING\r\n");
        bench.wait(Duration::from_secs(6));
    }
    assert_eq!(bench.orders(), []);
    assert_eq!(bench.types("ATA\r"), "");
    assert_eq!(bench.orders(), [Order::Answer]);
}

#[test]
fn a_call_on_hold_can_be_resumed_or_ended() {
    let mut bench = Bench::online();
    bench.wait(Duration::from_secs(1));
    bench.types("+++");
    assert_eq!(bench.wait(Duration::from_secs(1)), "\r\nOK\r\n");
    assert!(bench.modem.has_call() && !bench.modem.is_online() && bench.modem.carrier_shown());
    assert_eq!(bench.types("ATD2\r"), "\r\nERROR\r\n", "one call at a time");
    assert_eq!(bench.types("ATA\r"), "\r\nERROR\r\n");
    assert_eq!(bench.types("ATO\r"), "\r\nCONNECT 2400\r\n");
    bench.types("data");
    assert_eq!(bench.sent, b"+++data");
    bench.wait(Duration::from_secs(1));
    bench.types("+++");
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.types("ATH\r"), "\r\nOK\r\n");
    assert_eq!(bench.orders(), [Order::HangUp]);
    assert!(!bench.modem.has_call() && !bench.modem.carrier_shown());
    assert_eq!(bench.types("ATO\r"), "\r\nNO CARRIER\r\n");
    assert_eq!(bench.types("ATH\r"), "\r\nOK\r\n");
    assert_eq!(bench.orders(), [], "there is nothing to hang up");
}

#[test]
fn hanging_up_and_dialling_in_one_line_gives_both_orders() {
    let mut bench = Bench::online();
    bench.wait(Duration::from_secs(1));
    bench.types("+++");
    bench.wait(Duration::from_secs(1));
    bench.types("ATH0D2\r");
    assert!(matches!(&bench.orders()[..], [Order::HangUp, Order::Dial(_)]));
}

#[test]
fn a_call_that_ends_says_so_wherever_the_terminal_is() {
    let mut bench = Bench::online();
    assert_eq!(bench.event(LineEvent::Lost), "\r\nNO CARRIER\r\n");
    assert_eq!(bench.event(LineEvent::Lost), "", "once");
    let mut bench = Bench::online();
    bench.wait(Duration::from_secs(1));
    bench.types("+++");
    bench.wait(Duration::from_secs(1));
    bench.types("ATS7");
    assert_eq!(bench.event(LineEvent::Lost), "\r\nNO CARRIER\r\n");
    assert_eq!(bench.types("?\r"), "\r\n060\r\n\r\nOK\r\n", "the line being typed is not lost");
}

#[test]
fn a_terminal_that_goes_away_does_what_amp_d_says() {
    for (command, gone, online, orders) in [
        ("&D0", TerminalGone::Ignored, true, vec![]),
        ("&D1", TerminalGone::Commands, false, vec![]),
        ("&D2", TerminalGone::HangsUp, false, vec![Order::HangUp]),
    ] {
        let mut bench = Bench::new();
        bench.types(&format!("AT{command}D1\r"));
        bench.orders();
        bench.event(LineEvent::Connected(CALL));
        assert_eq!(bench.modem.settings().terminal_gone, gone);
        bench.modem.terminal_gone(bench.now);
        assert_eq!(bench.modem.is_online(), online, "{command}");
        assert_eq!(bench.modem.has_call(), orders.is_empty(), "{command}");
        assert_eq!(bench.orders(), orders, "{command}");
    }
    let mut bench = Bench::new();
    bench.types("ATS7=9");
    bench.modem.terminal_gone(bench.now);
    bench.types("\r");
    assert_eq!(bench.types("ATS7?\r"), "\r\n060\r\n\r\nOK\r\n", "half a line is forgotten");
}
