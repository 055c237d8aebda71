//! Cuts processes at each of their system calls and reports what is broken or left behind
//! (docs/machines.md).
//!
//! Needs root privileges. Exit codes: 0 all promises held, 1 something broke, 2 bad usage, 3 this
//! host cannot run it.

use std::io::Write as _;
use std::process::ExitCode;

use punctual_linux::clock;
use punctual_model::Duration;
use system_tests::hostile;
use system_tests::hostile::cuts::Sweep;

const USAGE: &str = "\
usage: cuts [--scenario NAME] [--victim NAME] [--action NAME] [--at N | --stride N [--first N]] [--most N]
            [--seconds N] [--list]
Cuts at every call of every scenario, or at every N-th; at most so often each, and for so long in all.";

/// The sweeps selected on the command line.
#[derive(Default)]
struct Wanted {
    scenario: Option<String>,
    victim: Option<String>,
    action: Option<String>,
    at: Option<u64>,
    first: Option<u64>,
    stride: Option<u64>,
    most: Option<u64>,
    seconds: Option<u64>,
    list: bool,
}

impl Wanted {
    fn read() -> Option<Self> {
        let mut wanted = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || words.next()?.parse().ok().filter(|number| *number > 0);
            match word.as_str() {
                "--list" => wanted.list = true,
                "--at" => wanted.at = Some(number()?),
                "--first" => wanted.first = Some(number()?),
                "--stride" => wanted.stride = Some(number()?),
                "--most" => wanted.most = Some(number()?),
                "--seconds" => wanted.seconds = Some(number()?),
                "--scenario" => wanted.scenario = Some(words.next()?),
                "--victim" => wanted.victim = Some(words.next()?),
                "--action" => wanted.action = Some(words.next()?),
                _ => return None,
            }
        }
        Some(wanted)
    }

    fn sweeps(&self) -> Vec<Sweep> {
        let is_wanted = |sweep: &Sweep| {
            let line = format!("{sweep} ");
            let says = |key: &str, value: &Option<String>| {
                value.as_ref().is_none_or(|value| line.contains(&format!("--{key} {value} ")))
            };
            says("scenario", &self.scenario)
                && says("victim", &self.victim)
                && says("action", &self.action)
        };
        Sweep::all().into_iter().filter(is_wanted).collect()
    }
}

fn main() -> ExitCode {
    if hostile::play() {
        return ExitCode::SUCCESS;
    }
    let Some(wanted) = Wanted::read() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let sweeps = wanted.sweeps();
    if wanted.list || sweeps.is_empty() {
        Sweep::all().iter().for_each(|sweep| println!("{sweep}"));
        return ExitCode::from(if wanted.list { 0 } else { 2 });
    }
    if !hostile::possible() {
        return ExitCode::from(3);
    }
    let (began, mut cuts, mut broken) = (clock::now(), 0, 0);
    let until = began + Duration::from_secs(wanted.seconds.unwrap_or(1_000_000));
    for sweep in sweeps {
        if clock::now() > until {
            println!("time is up before {sweep}");
            break;
        }
        let start = clock::now();
        let (first, stride) = (wanted.at.or(wanted.first).unwrap_or(1), wanted.stride.unwrap_or(1));
        let most = if wanted.at.is_some() { 1 } else { wanted.most.unwrap_or(u64::MAX) };
        let swept = sweep.run(first, stride, most, |at| eprint!("\r{sweep} --at {at} "));
        let took = (clock::now() - start).as_nanos() / 1_000_000;
        println!("\r{sweep}: {} cuts up to call {}, {took} ms", swept.cuts, swept.last);
        // Every scenario has calls to cut at: none means that they are not recognised.
        if swept.cuts == 0 && first == 1 {
            println!("BROKEN: nothing was cut\n    again: cuts {sweep}");
            broken += 1;
        }
        for (at, why) in &swept.broken {
            println!("BROKEN: {why}\n    again: cuts {sweep} --at {at}");
        }
        let _ = std::io::stdout().flush();
        (cuts, broken) = (cuts + swept.cuts, broken + swept.broken.len());
    }
    println!("{cuts} cuts, {broken} of them broke something");
    ExitCode::from(u8::from(broken > 0))
}
