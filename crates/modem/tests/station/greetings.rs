//! The modulation that two modems agree on before a call.

use punctual_modem::exchange::Perfect;

use super::Desk;

/// Calls with the given settings of both ends. Returns each end's report of the modulation, the
/// calling end's first, and the seconds from dialling until both are connected.
fn agreed(settings: [&str; 2]) -> ([String; 2], f64) {
    let mut desk = Desk::new(Perfect);
    for (end, settings) in settings.into_iter().enumerate() {
        desk.types(end, format!("ATE0S0=1+MR=1;{settings}\r"));
        desk.until(end, "OK\r\n", 1);
    }
    desk.types(0, "ATD1\r");
    let from = desk.now;
    let said = [0, 1].map(|end| {
        let said = desk.until(end, "CONNECT", 60);
        let found = said.split_once("+MCR: ").expect("it says so").1;
        found.lines().next().expect("a line").to_owned()
    });
    let took = desk.now - from;
    // The call must carry data, not only report a name.
    desk.run(1);
    desk.shown = [vec![], vec![]];
    desk.types(0, "over there");
    desk.until(1, "over there", 20);
    desk.types(1, "over here");
    desk.until(0, "over here", 20);
    (said, took.as_secs_f64())
}

fn all_agree(name: &str, calls: &[[&str; 2]]) {
    for settings in calls {
        let (said, took) = agreed(*settings);
        assert_eq!(said, [name, name], "{settings:?}");
        println!("{settings:?}: {name} after {took:.1} s");
        assert!(took < 25.0, "{settings:?}: {took} s");
    }
}

#[test]
fn both_ends_negotiate_the_fastest_that_they_have_in_common() {
    all_agree("V22B", &[["+MS=V22B", "+MS=V22B"]]);
    all_agree("V23C", &[["+MS=V23C", "+MS=V22B"], ["+MS=V22B", "+MS=V23C"]]);
    all_agree("V21", &[["+MS=V22B", "+MS=V21"], ["+MS=V21", "+MS=V22B"], ["+MS=V23C", "+MS=V21"]]);
}

#[test]
fn an_end_without_negotiation_is_met_by_one_with_it() {
    all_agree("V22B", &[["+MS=V22B", "+MS=V22B,0"], ["+MS=V22B,0", "+MS=V22B"]]);
    all_agree("V21", &[["+MS=V21", "+MS=V21,0"], ["+MS=V21,0", "+MS=V21"]]);
    all_agree("V23C", &[["+MS=V23C", "+MS=V23C,0"], ["+MS=V23C,0", "+MS=V23C"]]);
}

#[test]
fn two_ends_without_negotiation_greet_with_an_answer_tone() {
    all_agree("V22B", &[["+MS=V22B,0", "+MS=V22B,0"]]);
    all_agree("V21", &[["+MS=V21,0", "+MS=V21,0"]]);
    all_agree("V23C", &[["+MS=V23C,0", "+MS=V23C,0"]]);
    all_agree("B103", &[["+MS=B103", "+MS=B103"]]);
}

#[test]
fn ends_without_a_common_modulation_both_report_no_carrier() {
    let mut desk = Desk::new(Perfect);
    desk.types(0, "ATE0S7=30+MS=V21,0\r");
    desk.types(1, "ATE0S7=30S0=1+MS=V22B,0\r");
    desk.run(1);
    desk.types(0, "ATD1\r");
    for end in 0..2 {
        desk.until(end, "NO CARRIER\r\n", 60);
        desk.run(1);
        assert!(!desk.exchange.station(end).is_off_hook());
    }
}
