//! Runs `punctual run contract.toml`.

use std::fs;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::live::{alone, is_there, json, number, run, text};
use super::server::is_without_server;

const TWO: &str = r#"
[[reservation]]
name = "a"
budget = "2ms"
period = "20ms"

[[reservation]]
name = "b"
budget = "1ms"
period = "10ms"

[[reservation]]
name = "spare"
budget = "1ms"
period = "50ms"

[[command]]
name = "first"
run = ["sh", "-c", "echo \"$WORD from $PWD\"; exit 0"]
reservation = "a"
directory = "/"
environment = { WORD = "hello" }

[[command]]
name = "second"
run = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 6"]
reservation = "b"
enforcement = "hard"

[[command]]
name = "third"
run = ["sh", "-c", "exit 7"]
"#;

/// Returns what holds a command that asks for no back end here.
fn holder() -> &'static str {
    if is_without_server() { "timetable" } else { "server" }
}

/// Writes the contract into a new folder and runs it.
fn of(contract: &str, options: &[&str]) -> Option<(Output, TempDir)> {
    let folder = tempfile::tempdir().expect("can be made");
    let file = folder.path().join("contract.toml");
    fs::write(&file, contract.replace("FOLDER", folder.path().to_str()?)).expect("writes");
    let output = run(&[options, &[file.to_str()?]].concat())?;
    Some((output, folder))
}

#[test]
fn all_are_started_and_the_first_bad_code_in_file_order_is_ours() {
    let _alone = alone();
    let Some((output, _)) = of(TWO, &["--json"]) else { return };
    let page = json(&output);
    assert_eq!(output.status.code(), Some(6), "{page}");
    assert_eq!(text(&output.stdout), "hello from /\n");
    let commands = page["commands"].as_array().expect("a list");
    let all = |key: &str| commands.iter().map(|one| one[key].clone()).collect::<Vec<Value>>();
    assert_eq!(all("name"), ["first", "second", "third"]);
    assert_eq!(all("exit_code"), [0, 6, 7]);
    assert_eq!(all("enforcement"), ["soft".into(), "hard".into(), Value::Null]);
    assert!(number(&commands[1], "exec_time_ns") > 0 && number(&commands[1], "periods") > 0);
    let rest = page["only_admitted"].as_str().expect("a sentence");
    assert!(rest.contains("reservations \"spare\"") && !rest.contains("\"a\""), "{rest}");
}

#[test]
fn the_table_has_a_row_each_and_one_command_gives_its_own_code() {
    let _alone = alone();
    let Some((output, _)) = of(TWO, &["--only", "first,second", "--"]) else { return };
    let table = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "a program behind -- is refused: {table}");
    let Some((output, _)) = of(TWO, &["--only=second"]) else { return };
    let table = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{table}");
    let terms = format!("punctual: second: 1ms/10ms, hard, by a {}", holder());
    for part in [&terms, "exit 6", "│ second"] {
        assert!(table.contains(part), "{table}");
    }
    assert!(!table.contains("│ first") && table.contains("\"a\", \"spare\""), "{table}");
}

#[test]
fn a_refused_contract_starts_nothing_and_says_what_would_fit() {
    let contract = TWO.replace("budget = \"2ms\"", "budget = \"20ms\"")
        + "\n[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwcet = \"9ms\"\n";
    let Some((output, folder)) = of(&contract, &[]) else { return };
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{said}");
    assert!(said.starts_with("refused by "), "{said}");
    // The sentence is that of `punctual admit`.
    let file = folder.path().join("contract.toml");
    let admit = std::process::Command::new(super::live::PUNCTUAL)
        .env("PUNCTUAL_HOST_PROFILE", "ideal")
        .arg("admit")
        .arg(file)
        .output();
    let admitted = text(&admit.expect("was built").stdout);
    assert!(admitted.contains(said.lines().next().expect("a line")), "{said}\n{admitted}");
}

#[test]
fn a_dry_run_starts_nothing_and_says_what_and_why() {
    let Some((output, _)) = of(TWO, &["--dry-run"]) else { return };
    let plan = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{plan}{}", text(&output.stderr));
    for part in ["first", holder(), "nothing was started", "\"spare\""] {
        assert!(plan.contains(part), "{plan}");
    }
    assert!(!plan.contains("hello"), "{plan}");
    let Some((output, _)) = of(TWO, &["--dry-run", "--json"]) else { return };
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&plan["commands"][1]["backend"], &plan["admitted"]),
        (&holder().into(), &true.into())
    );
}

#[test]
fn a_dry_run_of_one_program_starts_nothing_and_says_how_it_would_be_held() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ran").to_string_lossy().into_owned();
    for (options, part) in [(&[][..], "nothing was started"), (&["--json"], "\"because\"")] {
        let all = [&["--reserve", "2ms/8ms", "--dry-run"], options, &["--", "touch", &file]];
        let Some(output) = run(&all.concat()) else { return };
        let plan = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{plan}{}", text(&output.stderr));
        for part in ["touch", holder(), part] {
            assert!(plan.contains(part), "{plan}");
        }
    }
    assert!(fs::read_dir(&folder).expect("ours").next().is_none(), "it ran");
}

#[test]
fn if_one_cannot_be_started_the_others_are_ended_and_it_is_named() {
    let _alone = alone();
    let contract = TWO
        .replace(
            "echo \\\"$WORD from $PWD\\\"; exit 0",
            "sleep 600 & echo $$ $! > FOLDER/pid; wait",
        )
        .replace("run = [\"sh\", \"-c\", \"exit 7\"]", "run = [\"/nonexistent/program\"]");
    assert!(contract.contains("sleep 600"));
    let Some((output, folder)) = of(&contract, &[]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{said}");
    assert!(said.contains("command \"third\": cannot run \"/nonexistent/program\""), "{said}");
    assert!(said.contains("2 ran already and were ended"), "{said}");
    // It may have been ended before it wrote its id.
    let ids = fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
    let left = ids.split_whitespace().filter_map(|id| id.parse().ok()).find(|id| is_there(*id));
    assert_eq!(left, None, "{ids}");
}

#[test]
fn unusable_contracts_and_options_are_bad_input() {
    let kernel = TWO.replace("enforcement = \"hard\"", "backend = \"kernel\"");
    let nowhere = TWO.replace("directory = \"/\"", "directory = \"/nonexistent\"");
    let none = "[[reservation]]\nname = \"a\"\nbudget = \"1ms\"\nperiod = \"10ms\"\n";
    let _alone = alone();
    for (contract, options, right) in [
        (&*kernel, &[][..], "SCHED_DEADLINE gives nothing outside"),
        (&nowhere, &[], "command \"first\": /nonexistent is no directory"),
        (none, &[], "names no program to start"),
        (
            TWO,
            &["--only=fourth"],
            "no command \"fourth\"; there is \"first\", \"second\", \"third\"",
        ),
        (TWO, &["--reserve=2ms/8ms"], "behind \"--\""),
    ] {
        let Some((output, _)) = of(contract, options) else { return };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(right), "{said}");
    }
}

/// Of equal periods the reservation that comes first in the contract has the higher level, in
/// whichever order the commands come: 1 ms beneath 5 ms of every 10 ms may take longer than 10 ms,
/// and is in a timetable then.
#[test]
fn commands_have_servers_with_the_levels_that_admission_gave_them_or_timetables() {
    if is_without_server() {
        return;
    }
    let _alone = alone();
    let reservation = |name: &str, budget: &str| {
        format!("[[reservation]]\nname = \"{name}\"\nbudget = \"{budget}\"\nperiod = \"10ms\"\n")
    };
    let command = |name: &str| {
        format!("[[command]]\nname = \"run {name}\"\nrun = [\"true\"]\nreservation = \"{name}\"\n")
    };
    let all = [reservation("x", "1ms"), reservation("y", "5ms"), command("y"), command("x")];
    let reversed = [reservation("y", "5ms"), reservation("x", "1ms"), command("x"), command("y")];
    for (contract, backend, because) in [
        (all.concat(), "server", "whenever it wakes"),
        (reversed.concat(), "timetable", "not admitted with servers"),
    ] {
        let Some((plan, _)) = of(&contract, &["--dry-run", "--json"]) else { return };
        assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stderr));
        let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
        let Some((output, _)) = of(&contract, &["--json"]) else { return };
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        for page in [plan, json(&output)] {
            assert_eq!(page["commands"][1]["backend"], backend, "{page}");
            let said = page["commands"][1]["because"].as_str();
            assert!(said.is_some_and(|said| said.contains(because)), "{page}");
        }
    }
}

/// The costs of slots make this more than a CPU. An earlier version admitted it, and then two
/// programs were killed.
#[test]
fn a_contract_without_a_timetable_is_refused_before_anything_runs() {
    let _alone = alone();
    let command = |name: &str, budget: &str, period: &str| {
        format!(
            "[[reservation]]\nname = \"{name} time\"\nbudget = \"{budget}\"\nperiod = \"{period}\"\n\
             [[command]]\nname = \"{name}\"\nrun = [\"touch\", \"FOLDER/{name}\"]\n\
             reservation = \"{name} time\"\nbackend = \"timetable\"\n"
        )
    };
    let contract = command("a", "300us", "1100us")
        + &command("b", "500us", "1700us")
        + &command("c", "300us", "1900us");
    for options in [&[][..], &["--dry-run"]] {
        let Some((output, folder)) = of(&contract, options) else { return };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("refused by the timetable test"), "{said}");
        for name in ["a", "b", "c"] {
            assert!(!folder.path().join(name).exists(), "{name} ran: {said}");
        }
    }
    // With two CPUs all three programs run.
    let Some((output, folder)) = of(&format!("[system]\ncpus = 2\n{contract}"), &["--json"]) else {
        return;
    };
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for name in ["a", "b", "c"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
