//! Assembling bytes into lines: prefix, echo, editing, length, `A/`.

use punctual_modem::at::LINE_ROOM;

use super::Bench;

const OK: &str = "\r\nOK\r\n";

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
