//! One emulated machine, from its first instruction to its end.
//!
//! With [`Clock::Counted`] the guest's time is the number of its instructions, 2 ns each, and idle
//! time passes at once. Nothing on the host can make it late, and the same kernel, files and seed
//! give the same run, to the instruction (docs/machines.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use clap::ValueEnum;
use punctual_linux::{clock, process::die_with_parent};
use punctual_model::Duration;
use serde::Deserialize;

use crate::host::{output_of, tail};
use crate::kernel::Kernel;
use crate::problem::Problem;
use crate::root::Contents;

/// The guest's time for one instruction, as a power of two: 2 ns, a processor of 500 million a second.
const ICOUNT_SHIFT: u32 = 1;
/// The text before the time that the first process prints when the script has ended.
const ENDED: &str = "lab: ran until ";
/// The time between two checks of a machine.
const LOOK: Duration = Duration::from_millis(20);

/// The source of a machine's time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clock {
    /// Its instructions: reproducible, and independent of the host.
    Counted,
    /// The host's clock; each CPU is a thread of the host.
    Free,
}

impl Clock {
    /// Returns the name on command lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Free => "free",
        }
    }
}

/// A machine that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The kernel that it boots.
    pub(crate) kernel: Kernel,
    /// The source of its time.
    pub(crate) clock: Clock,
    /// The number of its CPUs; with a counted clock they take turns.
    pub(crate) cpus: u32,
    /// Its memory, in MiB.
    pub(crate) memory_mib: u32,
    /// The seed of the kernel's random numbers and of the phase against its tick.
    pub(crate) seed: u64,
    /// Additional arguments on the kernel's command line.
    pub(crate) kernel_arguments: String,
    /// The longest that it may take, in the host's time.
    pub(crate) patience: Duration,
}

/// The results of a machine that has run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code of the script, or `None` if the machine did not complete it.
    pub(crate) status: Option<u8>,
    /// The output of the kernel and the first process.
    pub(crate) console: String,
    /// The output of the script.
    pub(crate) output: String,
    /// The time since the machine's start when the script ended, in seconds of the guest.
    pub(crate) guest_seconds: Option<f64>,
}

impl Machine {
    /// Boots, runs the script of `contents`, and unpacks the results into `results`; if the machine
    /// did not come to its end, those that it had sent by then.
    ///
    /// # Errors
    /// Fails if the machine could not be started, or if its final results cannot be unpacked. A
    /// machine that hangs, panics or runs out of patience is no error: its [`Ran::status`] is
    /// `None`.
    pub(crate) fn run(&self, contents: &Contents, results: &Path) -> Result<Ran, Problem> {
        let room = tempfile::tempdir().map_err(Problem::file(&std::env::temp_dir()))?;
        let (console, archive) = (room.path().join("console"), room.path().join("results.tar.gz"));
        let mut command = self.command(contents, room.path(), "run")?;
        // Results come over a serial line: with a device on the PCI bus, a disk or any other virtio
        // device, two boots of one machine differ.
        for file in [&console, &archive] {
            command.args(["-serial", &format!("file:{}", file.display())]);
        }
        let ended = wait(start(&mut command)?, self.patience)?;

        let console = fs::read(&console).map_err(Problem::file(&console))?;
        let console = String::from_utf8_lossy(&console).into_owned();
        if results.exists() {
            fs::remove_dir_all(results).map_err(Problem::file(results))?;
        }
        fs::create_dir_all(results).map_err(Problem::file(results))?;
        let written = results.join("console");
        fs::write(&written, &console).map_err(Problem::file(&written))?;
        // One archive after the other, each with all results so far; the last one may be cut off.
        let unpacked =
            output_of(Command::new("tar").arg("-xzif").arg(&archive).arg("-C").arg(results));
        let came_to_its_end = ended.is_some_and(|status| status.success());
        if came_to_its_end {
            unpacked?;
        }
        let read = |name: &str| fs::read_to_string(results.join(name)).unwrap_or_default();
        let marked = console.lines().find_map(|line| line.trim().strip_prefix(ENDED));
        Ok(Ran {
            status: read("status").trim().parse().ok().filter(|_| came_to_its_end),
            output: read("output"),
            guest_seconds: marked.and_then(|seconds| seconds.parse().ok()),
            console,
        })
    }

    /// Boots into a shell on this terminal.
    ///
    /// # Errors
    /// Fails if the machine could not be started.
    pub(crate) fn shell(&self, contents: &Contents) -> Result<ExitStatus, Problem> {
        let room = tempfile::tempdir().map_err(Problem::file(&std::env::temp_dir()))?;
        let mut command = self.command(contents, room.path(), "shell")?;
        command.args(["-serial", "mon:stdio"]);
        let mut child = start(&mut command)?;
        child.wait().map_err(|error| Problem::Host(format!("waiting for the machine: {error}")))
    }

    /// Returns the emulator's command line, without its serial lines.
    fn command(&self, contents: &Contents, room: &Path, mode: &str) -> Result<Command, Problem> {
        let archive = room.join("root.cpio");
        contents.pack(&self.kernel, room, &archive)?;
        let mut command = Command::new(emulator()?);
        command.args(["-machine", "pc", "-nodefaults", "-no-reboot", "-display", "none"]);
        // Entropy from the host would make each run different.
        command.args(["-cpu", "max,-rdrand,-rdseed", "-rtc", "base=2026-01-01,clock=vm"]);
        // The emulator gives the kernel random bytes as well.
        command.args(["-seed", &self.seed.to_string()]);
        command.args(["-m", &format!("{}M", self.memory_mib), "-smp", &self.cpus.to_string()]);
        match self.clock {
            Clock::Counted => command
                .args(["-accel", "tcg,thread=single"])
                .args(["-icount", &format!("shift={ICOUNT_SHIFT},sleep=off")]),
            Clock::Free => command.args(["-accel", "tcg,thread=multi"]),
        };
        command.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(&archive);
        command.arg("-append").arg(format!(
            "console=ttyS0 quiet nokaslr random.trust_cpu=off panic=-1 oops=panic tsc=reliable \
             lab.mode={mode} lab.seed={} lab.clock={} {}",
            self.seed,
            self.clock.name(),
            self.kernel_arguments,
        ));
        Ok(command)
    }
}

impl Ran {
    /// Marks this run as broken if another run of the same machine printed something else.
    pub(crate) fn must_equal(&mut self, again: &Self) {
        let pairs = [(&self.console, &again.console), (&self.output, &again.output)];
        let Some((first, second)) = pairs.into_iter().find(|(first, second)| first != second)
        else {
            return;
        };
        let mut lines = first.lines().zip(second.lines());
        let (first, second) = lines.find(|(first, second)| first != second).unwrap_or_default();
        let difference = format!("run again it printed {second:?} instead of {first:?}\n");
        self.output.push_str(&difference);
        self.status = Some(1);
    }

    /// Returns the last lines, which show why a machine did not come to its end.
    pub(crate) fn last_words(&self) -> String {
        tail(&self.console, 12)
    }
}

/// Returns the emulator for this host's processor.
fn emulator() -> Result<PathBuf, Problem> {
    let name = "qemu-system-x86_64";
    output_of(Command::new(name).arg("--version")).map_err(|_| {
        Problem::Host(format!("{name} is not installed: apt-get install qemu-system-x86"))
    })?;
    Ok(PathBuf::from(name))
}

/// Starts the emulator, which dies with the thread that waits for it.
fn start(command: &mut Command) -> Result<Child, Problem> {
    die_with_parent(command);
    command.spawn().map_err(|error| Problem::Host(format!("the emulator did not start: {error}")))
}

/// Waits for a machine's end. Kills it and returns `None` when `patience` is over.
fn wait(mut machine: Child, patience: Duration) -> Result<Option<ExitStatus>, Problem> {
    let until = clock::now() + patience;
    loop {
        let ended = machine.try_wait();
        match ended.map_err(|error| Problem::Host(format!("waiting for the machine: {error}")))? {
            Some(status) => return Ok(Some(status)),
            None if clock::now() < until => clock::sleep(LOOK),
            None => {
                let killed = machine.kill().and_then(|()| machine.wait());
                killed.map_err(|error| Problem::Host(format!("killing the machine: {error}")))?;
                return Ok(None);
            }
        }
    }
}
