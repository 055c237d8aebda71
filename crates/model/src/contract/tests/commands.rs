//! Tests of commands.

use super::*;
use crate::command::Backend;
use crate::units::Bytes;
use crate::{Enforcement, FileError};

const PLAYER: &str = "[[reservation]]\nname = \"r\"\nbudget = \"2ms\"\nperiod = \"8ms\"\n";

fn parse(command: &str) -> Result<Contract, FileError> {
    let text = alloc::format!("{PLAYER}[[command]]\nname = \"c\"\n{command}");
    Contract::parse("c.toml", text.as_bytes())
}

#[test]
fn a_command_names_its_reservation() {
    let contract = parse(
        "run = [\"play\", \"a.wav\"]\nreservation = \"r\"\nenforcement = \"hard\"\n\
         backend = \"timetable\"\ncpu = 1\ndirectory = \"/srv\"\n\
         environment = { B = \"2\", A = \"1\" }\n",
    );
    let contract = contract.expect("valid");
    let command = &contract.commands[0];
    assert_eq!((command.name(), command.program()), ("c", "play"));
    assert_eq!(command.arguments(), ["a.wav"]);
    assert_eq!(command.directory(), Some("/srv"));
    let names: Vec<&str> = command.environment().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["A", "B"]);
    let held = command.held().expect("it holds one");
    assert_eq!((held.reservation, held.enforcement), (0, Enforcement::Hard));
    assert_eq!((held.backend, held.cpu), (Some(Backend::Timetable), Some(1)));
}

#[test]
fn a_command_may_be_an_ordinary_program_and_a_reservation_is_soft_unless_said() {
    let alone = Contract::parse("c.toml", b"[[command]]\nname = \"c\"\nrun = [\"true\"]\n");
    assert_eq!(alone.expect("valid").commands[0].held(), None);
    let contract = parse("run = [\"true\"]\nreservation = \"r\"\n").expect("valid");
    let held = contract.commands[0].held().expect("it holds one");
    assert_eq!((held.enforcement, held.backend, held.cpu), (Enforcement::Soft, None, None));
}

#[test]
fn a_command_without_a_back_end_may_have_a_server_unless_others_need_its_cpu() {
    let plain = "run = [\"true\"]\nreservation = \"r\"\n";
    let served = |command: &str| parse(command).expect("valid").may_have_servers_by_default();
    assert!(served(plain));
    let tabled = alloc::format!("{plain}backend = \"timetable\"\n");
    assert!(!served(&tabled));
    let sends = alloc::format!(
        "{plain}[sending]\nbandwidth = \"100mbit/s\"\npacket = \"1420B\"\n[[channel]]\nname = \"v\"\n\
         max_message = \"1200B\"\nmax_rate = \"100/s\"\ndelay_bound = \"5ms\"\n"
    );
    assert!(!served(&sends));
    let adapts = alloc::format!("{plain}adapt = \"1ms..4ms\"\n");
    let adapts = parse(&adapts).expect("valid");
    let held = adapts.commands[0].held().expect("it holds one");
    assert_eq!(held.backend, Some(Backend::Server), "only a server adapts");
    let error = parse(&alloc::format!("{tabled}adapt = \"1ms..4ms\"\n")).expect_err("no server");
    assert!(error.to_string().contains("leave the backend out"), "{error}");
}

#[test]
fn a_command_in_a_group_of_its_own_may_keep_memory() {
    let with = |keys: &str| {
        let all = alloc::format!("run = [\"true\"]\nreservation = \"r\"\nmemory = {keys}\n");
        parse(&all).map(|contract| contract.commands[0].held().and_then(|held| held.memory))
    };
    assert_eq!(with("\"64MiB\""), Ok(Some(Bytes(64 << 20))));
    assert_eq!(with("\"64MiB\"\nbackend = \"timetable\""), Ok(Some(Bytes(64 << 20))));
    for (keys, said) in [
        ("\"0B\"", "memory is 0"),
        ("64", "64 has no unit"),
        ("\"64MB\"\nbackend = \"kernel\"\nenforcement = \"hard\"", "leave the backend out"),
    ] {
        let error = with(keys).expect_err(said);
        assert!(error.to_string().contains(said), "{error}");
    }
    let alone = parse("run = [\"true\"]\nmemory = \"64MiB\"\n").expect_err("no reservation");
    assert!(alone.to_string().contains("memory is about a reservation"), "{alone}");
}

#[test]
fn errors_in_commands_have_their_place() {
    for (command, place, said) in [
        ("run = []\n", "c.toml:7:7", "there is no program"),
        ("run = [\"a\"]\nreservation = \"x\"\n", "c.toml:8:15", "no reservation \"x\""),
        ("run = [\"a\"]\ncpu = 1\n", "c.toml:8:7", "this command has none"),
        (
            "run = [\"a\"]\nreservation = \"r\"\ncpu = -1\n",
            "c.toml:9:7",
            "cpu is -1; it must be from 0 to 1023",
        ),
        (
            "run = [\"a\"]\nreservation = \"r\"\nenforcement = \"firm\"\n",
            "c.toml:9:15",
            "unknown enforcement \"firm\"; choose soft or hard",
        ),
        ("run = [\"a\"]\nenvironment = { \"\" = \"1\" }\n", "c.toml:8:15", "empty or has"),
        (
            "run = [\"a\"]\nreservation = \"r\"\n[[command]]\nname = \"d\"\nrun = [\"b\"]\n\
             reservation = \"r\"\n",
            "c.toml:12:15",
            "held by another command already",
        ),
    ] {
        let error = parse(command).expect_err(command).to_string();
        assert!(error.starts_with(place) && error.contains(said), "{error}");
    }
}

const SENDING: &str = "[sending]\nbandwidth = \"100mbit/s\"\npacket = \"1420B\"\n";

/// Parses a contract with one channel that has `keys` and a command that names it.
fn with_channel(keys: &str) -> Result<Contract, FileError> {
    let text = alloc::format!(
        "{SENDING}[[channel]]\nname = \"v\"\nmax_message = \"1200B\"\nmax_rate = \"100/s\"\n{keys}\
         [[command]]\nname = \"c\"\nrun = [\"a\"]\nchannel = \"v\"\n"
    );
    Contract::parse("c.toml", text.as_bytes())
}

const TO: &str = "delay_bound = \"5ms\"\ndestination = \"192.0.2.7:4000\"\n";

#[test]
fn a_command_names_the_channel_of_its_datagrams() {
    let contract = with_channel(TO).expect("valid");
    assert_eq!(contract.commands[0].channel(), Some(0));
    let chosen = alloc::format!("{TO}too_early = \"lose\"\npolicing = \"credits\"\n");
    let contract = with_channel(&chosen).expect("valid");
    assert_eq!(contract.commands[0].channel(), Some(0));
    assert_eq!(parse("run = [\"a\"]\n").expect("valid").commands[0].channel(), None);
}

#[test]
fn a_channel_that_cannot_take_a_programs_datagrams_is_refused_with_the_reason() {
    for (keys, said) in [
        ("delay_bound = \"5ms\"\n", "leads nowhere"),
        (&*alloc::format!("{TO}framing = \"fragments\"\n"), "sends fragments"),
        (
            "delay_bound = \"5ms\"\ndirection = \"receive\"\nlisten = \"192.0.2.7:4000\"\n\
             framing = \"datagram\"\n",
            "receives",
        ),
    ] {
        let error = with_channel(keys).expect_err(keys).to_string();
        assert!(error.contains("\"v\"") && error.contains(said), "{error}");
    }
    let ubr = alloc::format!(
        "{SENDING}[[channel]]\nname = \"v\"\nclass = \"ubr\"\npeak_rate = \"1mbit/s\"\nmax_sdu = \
         \"100B\"\ndestination = \"192.0.2.7:4000\"\n[[command]]\nname = \"c\"\nrun = [\"a\"]\n\
         channel = \"v\"\n"
    );
    let error = Contract::parse("c.toml", ubr.as_bytes()).expect_err("best effort").to_string();
    assert!(error.contains("promised nothing"), "{error}");
    let error = parse("run = [\"a\"]\nchannel = \"x\"\n").expect_err("unknown").to_string();
    assert!(error.contains("no channel \"x\""), "{error}");
    let twice = alloc::format!("{TO}[[command]]\nname = \"d\"\nrun = [\"b\"]\nchannel = \"v\"\n");
    let error = with_channel(&twice).expect_err("two commands").to_string();
    assert!(error.contains("sends through \"v\" already"), "{error}");
}
