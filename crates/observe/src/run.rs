//! The description of a traced run: the command, the host, the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use punctual_linux::{clock, host};
use punctual_trace::file::Run;

/// Describes this process's live run: instants are of CLOCK_MONOTONIC. `contract` is the text as
/// its author wrote it, empty if there is none.
///
/// ```
/// let run = punctual_observe::run_here("[system]\n");
/// assert!(run.live && run.epoch_unix_ns > 0);
/// ```
pub fn run_here(contract: &str) -> Run {
    #[allow(clippy::disallowed_methods, reason = "the wall clock is what is asked for")]
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Until the year 2262.
    let now = i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX);
    let epoch_unix_ns = now.saturating_sub_unsigned(clock::now().as_nanos());
    Run { live: true, epoch_unix_ns, ..run_in_virtual_time(contract) }
}

/// Describes this process's run in virtual time: instants count from its beginning.
///
/// ```
/// let run = punctual_observe::run_in_virtual_time("");
/// assert!(!run.live && !run.host.is_empty());
/// ```
pub fn run_in_virtual_time(contract: &str) -> Run {
    Run {
        live: false,
        epoch_unix_ns: 0,
        command: command_line(),
        host: facts(),
        contract: contract.to_owned(),
    }
}

/// Returns the command line as it would be typed, with words quoted that contain blanks.
fn command_line() -> String {
    let quoted = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'');
        if is_plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let mut words = std::env::args_os();
    // The directory of the program is private.
    let program = words.next().unwrap_or_default();
    let program = std::path::Path::new(&program).file_name().unwrap_or_default().to_owned();
    std::iter::once(program).chain(words).map(quoted).collect::<Vec<_>>().join(" ")
}

fn facts() -> Vec<String> {
    let machine = host::machine();
    let mut facts = vec![
        format!("kernel {}", machine.kernel_release),
        format!("build {}", machine.kernel_version),
        format!("processor {}", host::identity().cpu_model),
        format!("{} CPUs online", machine.cpus_online),
    ];
    facts.extend(machine.preemption.map(|how| format!("preemption {how}")));
    if let host::Virtualisation::Under(name) = machine.virtualisation {
        facts.push(format!("hypervisor {name}"));
    }
    if let Some((_, governor)) = machine.governors.first() {
        facts.push(format!("frequency governor {governor}"));
    }
    facts.push(match host::throttling() {
        Some(throttling) => format!("real-time throttling {throttling:?}"),
        None => "real-time throttling unknown".to_owned(),
    });
    facts
}
