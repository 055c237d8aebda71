//! Keys and their effects on the screen, and the state of the terminal afterwards.

use punctual_linux::process::Signal;

use super::terminal::Terminal;
use super::{NOBODY, PERIODIC, PUNCTUAL};

const ESCAPE: &str = "\u{1b}";
const DOWN: &str = "\u{1b}[B";

fn watch(environment: &[(&str, &str)], options: &[&str]) -> Terminal {
    let command = [PUNCTUAL, "watch", "--broker", NOBODY, "--deadline", "1s"];
    let arguments = [&command[..], options, &["--"], &PERIODIC].concat();
    Terminal::start(80, 24, environment, &arguments)
}

/// Returns whether the output has colours: SGR 30 to 37, 90 to 97, and 38.
fn is_coloured(terminal: &Terminal) -> bool {
    let written = String::from_utf8_lossy(&terminal.written).into_owned();
    let commands = written.split("\u{1b}[").filter_map(|rest| rest.split_once('m'));
    let numbers = commands.flat_map(|(numbers, _)| numbers.split(';').map(str::parse::<u8>));
    numbers.flatten().any(|number| matches!(number, 30..=38 | 90..=97))
}

#[test]
fn keys_do_what_the_help_says() {
    let mut terminal = watch(&[], &[]);
    let list = terminal.shows("> sh");
    assert!(list.contains("no broker answers") && list.contains("s sort: age"), "{list}");
    println!("{list}");
    terminal.press("s");
    terminal.shows("s sort: name");
    terminal.press("r");
    terminal.shows("name, reversed");
    terminal.press("p");
    terminal.shows("PAUSED");
    terminal.press("p");
    terminal.press(DOWN);
    terminal.press("k");
    terminal.press("\r");
    let detail = terminal.shows("Esc back");
    assert!(
        detail.contains("what        thread: thread ") && !detail.contains("PAUSED"),
        "{detail}"
    );
    println!("{detail}");
    terminal.press(ESCAPE);
    terminal.shows("q quit  ↑↓ move");
    terminal.press("?");
    let help = terminal.shows("keys and columns");
    println!("{help}");
    terminal.press("?");
    terminal.resize(120, 40);
    let wide = terminal.shows("wake-up latency");
    assert!(wide.lines().any(|line| line.contains("p99") && line.len() > 80), "{wide}");
    println!("{wide}");
    terminal.resize(40, 10);
    terminal.shows("40x10 is too small");
    terminal.resize(80, 24);
    terminal.shows("s sort: name");
    assert!(is_coloured(&terminal));
    terminal.press("q");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.is_as_it_was();
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = watch(&[], &[]);
        terminal.shows("> sh");
        terminal.send(signal);
        assert_eq!(terminal.ends().code(), Some(0));
        terminal.is_as_it_was();
    }
}

#[test]
fn it_ends_when_its_time_is_over() {
    let mut terminal = watch(&[], &["--for", "1s"]);
    // On a slow host, the program may not appear by then.
    terminal.shows("punctual watch");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.is_as_it_was();
}

#[test]
fn without_colours_there_are_none() {
    for (environment, options) in
        [(&[("NO_COLOR", "1")][..], &[][..]), (&[], &["--no-color"]), (&[("TERM", "dumb")], &[])]
    {
        let mut terminal = watch(environment, options);
        terminal.shows("> sh");
        terminal.press("q");
        assert_eq!(terminal.ends().code(), Some(0));
        assert!(!is_coloured(&terminal), "{environment:?} {options:?}");
        terminal.is_as_it_was();
    }
}
