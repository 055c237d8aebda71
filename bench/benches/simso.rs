//! Measures jobs a second in virtual time, against SimSo, a simulator in Python (Chéramy, Hladik &
//! Déplanche, WATERS 2014): the same systems for the same virtual time.
//!
//! SimSo always records events; Punctual's simulator runs without a sink, and with one that keeps
//! all events. Needs `python3` with `venv`, and the network once; skipped without.

use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems::System;
use punctual_trace::{Event, Sink};

const SIMSO: &str = "simso==0.8.5";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/simso_run.py");

fn main() {
    let python = match python_with_simso() {
        Ok(python) => python,
        Err(why) => return println!("simso: skipped, because {why}"),
    };
    for (n, jobs) in [(10, 2_000.0), (100, 2_000.0)] {
        let system = System::draw(n, jobs);
        let ours = system.completions();
        let (theirs, _) = simso(&python, &system);
        // SimSo rounds each first release to its clock, so a few jobs at the end may count or not.
        assert!(ours.abs_diff(theirs) <= ours / 100, "{ours} jobs, SimSo {theirs}");
        let repeat = 100;
        let found = compare(
            &format!("simulated job, {n} tasks (A) / by SimSo (B)"),
            3,
            || nanos_per_op(ours * repeat, || (0..repeat).for_each(|_| system.simulate(&mut ()))),
            || simso(&python, &system).1 * 1e9 / theirs as f64,
        );
        println!("SimSo, {n} tasks: 1/{:.0} of the jobs a second", found.b / found.a);
        let mut kept = Kept(Vec::new());
        let found = compare(
            &format!("simulated job with all events kept, {n} tasks (A) / by SimSo (B)"),
            3,
            || {
                nanos_per_op(ours, || {
                    kept.0.clear();
                    system.simulate(&mut kept);
                    black_box(&kept.0);
                })
            },
            || simso(&python, &system).1 * 1e9 / theirs as f64,
        );
        println!("SimSo, {n} tasks, events kept: 1/{:.0} of the jobs a second", found.b / found.a);
    }
}

struct Kept(Vec<Event>);

impl Sink for Kept {
    fn record(&mut self, event: Event) {
        self.0.push(event);
    }
}

/// Returns how many jobs SimSo completed, and the seconds it took.
fn simso(python: &Path, system: &System) -> (u64, f64) {
    let mut child = Command::new(python)
        .args(["-W", "ignore", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it ran before");
    let mut input = format!("{}\n", system.until.as_nanos());
    for (task, phase) in system.tasks.iter().zip(&system.phases) {
        let (period, wcet) = (task.min_inter_arrival().as_nanos(), task.wcet().as_nanos());
        input += &format!("{period} {wcet} {}\n", phase.as_nanos());
    }
    // Taken, so that it is closed and the script sees the end.
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("the script reads all of it");
    drop(stdin);
    let output = child.wait_with_output().expect("a child of ours");
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut fields = printed.split_whitespace();
    let mut field = || fields.next().unwrap_or_else(|| panic!("SimSo printed {printed:?}"));
    (field().parse().expect("a number of jobs"), field().parse().expect("seconds"))
}

/// Returns an environment in the target directory, and makes it if it is missing.
fn python_with_simso() -> Result<PathBuf, String> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simso");
    let python = environment.join("bin/python");
    let has_simso = |python: &Path| run(Command::new(python).args(["-c", "import simso"]));
    if has_simso(&python).is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", SIMSO]))?;
        has_simso(&python)?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|why| format!("{command:?} did not start: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {}", said.lines().last().unwrap_or("it said nothing")))
}
