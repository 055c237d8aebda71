//! Each command and its answer, with the sections of V.250, and the assembling of bytes into lines:
//! prefix, echo, editing, length, `A/`.

use punctual_modem::at::LINE_ROOM;

use super::Bench;

const OK: &str = "\r\nOK\r\n";
const ERROR: &str = "\r\nERROR\r\n";

/// Returns an answer with information text before OK.
fn told(text: &str) -> String {
    format!("\r\n{text}\r\n{OK}")
}

#[test]
fn each_command_has_its_answer() {
    let ok: &[&str] = &[
        "", // §5.2.1
        "E",
        "E0",
        "E1E0", // §6.2.4
        "V1",
        "Q0", // §6.2.6, §6.2.5
        "X",
        "X0",
        "X1",
        "X2",
        "X3",
        "X4", // §6.2.7
        "L",
        "L0",
        "L3",
        "M",
        "M0",
        "M2", // §6.3.13, §6.3.14
        "H",
        "H0", // §6.3.6
        "T",
        "P", // §6.3.2, §6.3.3
        "Z",
        "Z0", // §6.1.1
        "&F",
        "&F0", // §6.1.2
        "&C",
        "&C0",
        "&C1", // §6.2.8
        "&D",
        "&D1",
        "&D2", // §6.2.9
        "S0=0",
        "S0=255",
        "S2=0",
        "S2=255",
        "S6=2",
        "S6=10",
        "S7=1",
        "S8=255",
        "S9=1",
        "S10=254",
        "S12=0", // §5.3.2
        "+MS=V21",
        "+MS=v22b,0",
        "+MS=B103",
        "+MS=V23C", // §6.4.1
        "+ES=1",
        "+ES=3,0,2",
        "+ES=,3",
        "+ES=,,5",
        "+DS=0",
        "+ER=1",
        "+MR=0",
        "+GMI=?",
    ];
    for command in ok {
        assert_eq!(Bench::new().types(&format!("AT{command}\r")), OK, "{command}");
    }
    let error: &[&str] = &[
        "B",
        "C",
        "F",
        "G",
        "J",
        "K",
        "N",
        "R",
        "U",
        "W",
        "Y",
        "?",
        "=1",
        "&",
        "&G",
        "&W",
        "&Z",
        "E2",
        "H1",
        "L4",
        "M3",
        "O1",
        "Q2",
        "V2",
        "X5",
        "Z1",
        "A1",
        "&C2",
        "&D3",
        "&F1",
        "I1",
        "E99999999999999999999",
        "S",
        "S0",
        "S0=",
        "S0=256",
        "S1=0",
        "S3=128",
        "S5=300",
        "S6=1",
        "S6=11",
        "S7=0",
        "S10=0",
        "S10=255",
        "S11?",
        "S11=5",
        "S99=1",
        "S0=-1",
        "+",
        "+MS",
        "+MS=",
        "+MS=V34",
        "+MS=B103,1",
        "+MS=V21,2",
        "+MS=V21,0,300",
        "+ES=4",
        "+ES=0",
        "+ES=3,1",
        "+ES=3,0,4",
        "+ES=3,0,2,1",
        "+DS=4",
        "+DS=",
        "+DS=3,2",
        "+DS=3,0,512",
        "+DR=2",
        "+ER=2",
        "+FCLASS=1",
        "+IPR=9600",
        "DT5@1",
        "D5;",
        "D5!",
        "DL",
        "DS=1",
        "$",
        "%C1",
        "\\N3",
    ];
    for command in error {
        let mut bench = Bench::new();
        assert_eq!(bench.types(&format!("AT{command}\r")), ERROR, "{command}");
        assert_eq!(bench.orders(), [], "{command}");
        assert!(!bench.modem.is_connecting(), "{command}");
    }
}

#[test]
fn parameters_are_shown_on_request() {
    let asked = [
        ("I", "Punctual soft modem"), // §6.1.3
        ("I4", "+GCAP: +MS,+ES,+DS"),
        ("+GMI", "Punctual"),            // §6.1.4
        ("+GMM", "Punctual soft modem"), // §6.1.5
        ("+GCAP", "+GCAP: +MS,+ES,+DS"), // §6.1.9
        ("S0?", "000"),
        ("S1?", "000"),
        ("S2?", "043"),
        ("S3?", "013"),
        ("S4?", "010"),
        ("S5?", "008"),
        ("S6?", "002"),
        ("S7?", "060"),
        ("S8?", "002"),
        ("S9?", "006"),
        ("S10?", "014"),
        ("S12?", "050"),
        ("S7=33S7?", "033"),
        ("+MS?", "+MS: V22B,1"),
        ("+MS=?", "+MS: (V21,V23C,B103,V22B),(0,1)"),
        ("+MS=V21;+MS?", "+MS: V21,1"),
        ("+MS=V21,0;+MS?", "+MS: V21,0"),
        ("+MS=B103;+MS?", "+MS: B103,0"),
        ("+ES?", "+ES: 3,0,2"),
        ("+ES=,3;+ES?", "+ES: 3,3,2"),
        ("+ES=?", "+ES: (1-3),(0,3),(1,2,5)"),
        ("+DS?", "+DS: 3,0"),
        ("+DS=1,1;+DS?", "+DS: 1,1"),
        ("+DR=1;+DR?", "+DR: 1"),
        ("+DR=?", "+DR: (0,1)"),
        ("+DS=?", "+DS: (0-3),(0,1)"),
        ("+ER=1;+ER?", "+ER: 1"),
        ("+MR?", "+MR: 0"),
    ];
    for (command, text) in asked {
        assert_eq!(Bench::new().types(&format!("AT{command}\r")), told(text), "{command}");
    }
    assert_eq!(
        Bench::new().types("at&v\r"),
        told(
            "E0 L0 M0 Q0 V1 X4 &C1 &D2\r\n+MS=V22B,1 +ES=3,0,2 +DS=3,0 +DR=0 +ER=0 +MR=0\r\nS00:000 \
             S01:000 S02:043 S03:013 S04:010 S05:008 S06:002 S07:060 S08:002 S09:006 S10:014 S12:050"
        )
    );
}

#[test]
fn a_line_may_hold_many_commands_and_ends_at_its_first_error() {
    let mut bench = Bench::new();
    assert_eq!(bench.types("AT S7 = 5\r"), ERROR, "no spaces inside a command");
    assert_eq!(bench.types("AT S7=5 S8=4 +MS=V21;S9=8X1\r"), OK);
    assert_eq!(bench.types("ATS7=6S99=1S8=9\r"), ERROR);
    assert_eq!(bench.types("ATS7?S8?\r"), "\r\n006\r\n\r\n004\r\n\r\nOK\r\n");
    assert_eq!(bench.types("AT+MS?;S9?\r"), "\r\n+MS: V21,1\r\n\r\n008\r\n\r\nOK\r\n");
}

#[test]
fn results_are_words_or_numbers_or_nothing() {
    let mut bench = Bench::new();
    assert_eq!(bench.types("ATV0\r"), "0\r", "the answer is in the form just set (§6.2.6)");
    assert_eq!(bench.types("ATE2\r"), "4\r");
    assert_eq!(bench.types("ATS0?\r"), "000\r\n0\r", "§5.7.1");
    assert_eq!(bench.types("ATQ1\r"), "");
    assert_eq!(bench.types("ATE2\r"), "");
    assert_eq!(bench.types("ATS0?\r"), "000\r\n", "what is asked is told (§6.2.5)");
    assert_eq!(bench.types("ATQ0V1\r"), OK);
}

#[test]
fn reset_and_factory_undo_everything_and_reset_ends_its_line() {
    for command in ["Z", "&F"] {
        let mut bench = Bench::new();
        assert_eq!(bench.types("ATS7=5X1&D0+MS=V21\r"), OK);
        assert_eq!(bench.types(&format!("AT{command}\r")), OK);
        assert_eq!(*bench.modem.settings(), Default::default());
    }
    let mut bench = Bench::new();
    assert_eq!(bench.types("ATZE0\r"), OK);
    assert!(bench.modem.settings().echo);
}

#[test]
fn only_at_in_one_case_begins_a_line() {
    for prefix in ["AT", "at", "AAT", "xxAT", "\r\nAT", "aAT", "Aat"] {
        assert_eq!(Bench::new().types(&format!("{prefix}\r")), OK, "{prefix:?}");
    }
    for prefix in ["", "A", "T", "At", "aT", "TA", "A T"] {
        assert_eq!(Bench::new().types(&format!("{prefix}E0\r")), "", "{prefix:?}");
    }
}

#[test]
fn everything_typed_is_echoed_and_the_terminal_may_send_parity() {
    let mut bench = Bench::echoing();
    assert_eq!(bench.types("xAT S0?\r"), "xAT S0?\r\r\n000\r\n\r\nOK\r\n");
    for byte in [b'A' | 0x80, b'T', b'\r' | 0x80] {
        bench.byte(byte);
    }
    assert_eq!(bench.output(), "AT\r\r\nOK\r\n");
}

#[test]
fn backspace_takes_back_one_character_but_never_the_prefix() {
    let mut bench = Bench::echoing();
    assert_eq!(bench.types("ATS9"), "ATS9");
    assert_eq!(bench.types("\x08\x08\x08\x08"), "\x08 \x08\x08 \x08", "two were to be taken");
    assert_eq!(bench.types("S7?\r"), "S7?\r\r\n060\r\n\r\nOK\r\n");
    assert_eq!(bench.types("\x08"), "\x08", "outside a line it is a character like another");
}

#[test]
fn the_three_characters_can_be_changed() {
    let mut bench = Bench::new();
    assert_eq!(bench.types("ATS3=33\r"), "!\nOK!\n", "the answer has the new one (§6.2.1)");
    assert_eq!(bench.types("ATS4=35!"), "!#OK!#");
    assert_eq!(bench.types("ATS5=47!"), "!#OK!#");
    assert_eq!(bench.types("ATS0=5//?!"), "!#000!#!#OK!#", "5 and = were taken back");
}

#[test]
fn control_characters_are_not_part_of_a_line() {
    assert_eq!(Bench::new().types("AT\n\x00S\x1b7\x7f?\r"), "\r\n060\r\n\r\nOK\r\n");
}

#[test]
fn a_line_has_room_for_more_than_40_characters_and_ends_in_error_beyond() {
    let mut bench = Bench::new();
    let fits = "X4".repeat(LINE_ROOM / 2) + "X";
    assert_eq!(fits.len(), LINE_ROOM);
    assert_eq!(bench.types(&format!("AT{fits}\r")), OK);
    assert_eq!(bench.types(&format!("ATS7=5 {}", "X".repeat(LINE_ROOM))), "", "not before its end");
    assert_eq!(bench.types("\r"), "\r\nERROR\r\n");
    assert_eq!(bench.types("ATS7?\r"), "\r\n060\r\n\r\nOK\r\n", "nothing of it was carried out");
}

#[test]
fn a_slash_repeats_the_last_line_at_once() {
    let mut bench = Bench::new();
    assert_eq!(bench.types("ATS7?\r"), "\r\n060\r\n\r\nOK\r\n");
    assert_eq!(bench.types("A/"), "\r\n060\r\n\r\nOK\r\n");
    assert_eq!(bench.types("a/"), "\r\n060\r\n\r\nOK\r\n");
    assert_eq!(Bench::echoing().types("A/"), "A/\r\nOK\r\n", "nothing to repeat is an empty line");
}

#[test]
fn a_terminal_that_does_not_read_costs_it_answers_and_nothing_else() {
    let mut bench = Bench::new();
    for _ in 0..10_000 {
        "AT\r".bytes().for_each(|byte| bench.byte(byte));
    }
    let said = bench.output();
    assert!(said.len() <= punctual_modem::at::OUTPUT_ROOM);
    assert_eq!(said.len() as u64 + bench.modem.output_dropped(), 10_000 * OK.len() as u64);
    assert_eq!(said, OK.repeat(said.len() / OK.len()), "only whole answers are left out");
    assert_eq!(bench.types("AT\r"), OK);
}
