//! Starts that fail, each with a sentence and what to do; and the packaged files.

use std::fs;
use std::process::{Command, Output};

use crate::host::{GENEROUS, Host, OPEN, TRUSTING, USER};

fn run(mut command: Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().expect("the program");
    let said = [stdout, stderr].concat();
    (status.code().expect("an exit code"), String::from_utf8(said).expect("text"))
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_punctual-rtkit"))
}

#[test]
fn a_second_service_says_which_one_to_stop() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let (code, said) = run(host.service_command(0));
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("another service has the name org.freedesktop.RealtimeKit1"), "{said}");
    assert!(said.contains("systemctl disable --now rtkit-daemon"), "{said}");
}

#[test]
fn the_packaged_policy_of_the_bus_gives_the_name_to_root_and_not_to_others() {
    let packaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/dbus");
    let policy = format!(
        r#"<policy context="default"><allow user="*"/><deny own="*"/>
           <deny send_type="method_call"/><allow send_type="signal"/>
           <allow send_requested_reply="true" send_type="method_return"/>
           <allow send_requested_reply="true" send_type="error"/>
           <allow receive_type="method_call"/><allow receive_type="method_return"/>
           <allow receive_type="error"/><allow receive_type="signal"/>
           <allow send_destination="org.freedesktop.DBus"/></policy>
           <includedir>{packaged}</includedir>"#
    );
    let Some(host) = Host::without_service(GENEROUS, &policy) else { return };
    fs::write(host.path().join("rtkit.toml"), TRUSTING).expect("written");
    let state = host.path().join("rtkit");
    fs::create_dir(&state).expect("ours");
    let (code, said) = run(host.service_command(USER));
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("org.freedesktop.RealtimeKit1.conf into"), "{said}");
    assert!(said.contains("run as root or as the user punctual"), "{said}");

    let mut as_root = host.service_command(0).stderr(std::process::Stdio::null()).spawn();
    let child = as_root.as_mut().expect("the program");
    let mut caller = host.caller();
    crate::host::eventually("an ordinary user is answered", || caller.ask("realtime 10") == "ok");
    child.kill().expect("our child");
    child.wait().expect("our child");
}

#[test]
fn a_missing_bus_and_a_closed_one_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = program();
    command.arg("--state").arg(folder.path());
    let nowhere = format!("unix:path={}", folder.path().join("none").display());
    command.env("DBUS_SYSTEM_BUS_ADDRESS", nowhere);
    let (code, said) = run(command);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("there is no system bus to serve on"), "{said}");
    assert!(said.contains("systemctl start dbus"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let Some(host) = Host::without_service(GENEROUS, OPEN) else { return };
    fs::write(host.path().join("rtkit.toml"), TRUSTING).expect("written");
    let (code, said) = run(host.service_command(USER));
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("run as root or as the user punctual, or give --state"), "{said}");
}

#[test]
fn a_configuration_is_checked() {
    let packaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/rtkit.toml");
    let mut command = program();
    command.args(["--check", "--config", packaged]);
    let (code, said) = run(command);
    assert_eq!((code, said.trim_end()), (0, format!("{packaged}: right").as_str()));

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rtkit.toml");
    fs::write(&file, "[default]\ngrant = \"2ms\"\n").expect("written");
    for arguments in [vec!["--check"], vec![]] {
        let mut command = program();
        command.args(arguments).arg("--config").arg(&file);
        let (code, said) = run(command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("rtkit.toml:2:9:") && said.contains("grant"), "{said}");
    }
    let mut command = program();
    command.arg("--config").arg(folder.path().join("none"));
    assert_eq!(run(command).0, 2);
}

#[test]
fn help_has_examples_and_exit_codes() {
    let mut command = program();
    command.arg("--help");
    let (code, said) = run(command);
    assert_eq!(code, 0);
    assert!(said.contains("Examples:") && said.contains("Exit codes: 0"), "{said}");
    let mut command = program();
    command.arg("--confg");
    assert_eq!(run(command).0, 2);
}
