//! The jobs that run in machines: each is a file in `jobs/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::host::{output_of, project};
use crate::kernel;
use crate::machine::Clock;
use crate::problem::Problem;
use crate::root::Contents;

/// A script, its requirements, and the machines in which it is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    /// The file's name without `.toml`.
    #[serde(skip)]
    pub(crate) name: String,
    /// A sentence on what it shows.
    pub(crate) about: String,
    /// Whether it belongs to the few minutes of each integration.
    #[serde(default)]
    pub(crate) smoke: bool,
    /// Whether it is run twice, and broken unless both runs print the same, time stamps included.
    #[serde(default)]
    pub(crate) twice: bool,
    /// The kernels on which it is run; all by default.
    #[serde(default = "all_kernels")]
    pub(crate) kernels: Vec<String>,
    /// The source of the machine's time.
    pub(crate) clock: Clock,
    /// The number of CPUs of the machine.
    #[serde(default = "one")]
    pub(crate) cpus: u32,
    /// Its memory, in MiB.
    #[serde(default = "a_gibibyte")]
    pub(crate) memory_mib: u32,
    /// The longest that it may take, in minutes of the host.
    #[serde(default = "ten")]
    pub(crate) patience_minutes: u32,
    /// The number of seeds in the whole matrix.
    #[serde(default = "one")]
    pub(crate) seeds: u32,
    /// Additional arguments on the kernel's command line.
    #[serde(default)]
    pub(crate) kernel_arguments: String,
    /// Programs of this workspace: `PACKAGE/PROGRAM`, `PACKAGE/test:TEST`, `PACKAGE/lib` for the
    /// tests inside of a library, or `PACKAGE/cdylib:FILE` for a shared library.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
    /// Programs and folders of the host, by path.
    #[serde(default)]
    pub(crate) of_host: Vec<PathBuf>,
    /// Files and folders of the project.
    #[serde(default)]
    pub(crate) of_project: Vec<PathBuf>,
    /// The kernel modules to load.
    #[serde(default)]
    pub(crate) modules: Vec<String>,
    /// The shell script. Exit codes: 0 kept, 1 broken, 3 this kernel cannot, 4 not judgeable.
    pub(crate) script: String,
}

fn all_kernels() -> Vec<String> {
    kernel::NAMES.map(str::to_owned).to_vec()
}

fn one() -> u32 {
    1
}

fn ten() -> u32 {
    10
}

fn a_gibibyte() -> u32 {
    1024
}

impl Job {
    /// Reads all jobs, by name.
    ///
    /// # Errors
    /// Fails if a file cannot be read or has a key that no job has.
    pub(crate) fn all() -> Result<Vec<Self>, Problem> {
        let folder = project().join("machines/jobs");
        let entries = fs::read_dir(&folder).map_err(Problem::file(&folder))?;
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Self, Problem> {
        let text = fs::read_to_string(path).map_err(Problem::file(path))?;
        let mut job: Self = toml::from_str(&text)
            .map_err(|error| Problem::Usage(format!("{}: {error}", path.display())))?;
        job.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(job)
    }

    /// Returns the contents of the machine, given where the workspace's programs were built.
    pub(crate) fn contents(&self, built: &BTreeMap<String, PathBuf>) -> Contents {
        let programs =
            self.programs.iter().map(|program| (name_of(program), built[program].clone()));
        Contents {
            programs: programs.collect(),
            of_host: self.of_host.clone(),
            of_project: self.of_project.clone(),
            modules: self.modules.clone(),
            command: self.script.clone(),
        }
    }
}

/// Returns the name of a program of this workspace in a machine; for a library's tests the name of
/// the crate.
pub(crate) fn name_of(program: &str) -> String {
    match program.strip_suffix("/lib") {
        Some(package) => package.replace('-', "_"),
        None => program.rsplit(['/', ':']).next().unwrap_or(program).to_owned(),
    }
}

/// Builds programs of this workspace and returns where each lies.
///
/// # Errors
/// Fails if a name is malformed, or the build fails.
pub(crate) fn build<'a>(
    programs: impl IntoIterator<Item = &'a String>,
    profile: &str,
) -> Result<BTreeMap<String, PathBuf>, Problem> {
    let mut built = BTreeMap::new();
    for program in programs {
        if built.contains_key(program) {
            continue;
        }
        let Some((package, target)) = program.split_once('/') else {
            return Err(Problem::Usage(format!("{program:?} is not PACKAGE/PROGRAM")));
        };
        let mut cargo = Command::new("cargo");
        match target.split_once(':') {
            Some(("test", test)) => cargo.args(["test", "--no-run", "--test", test]),
            Some(("cdylib", _)) => cargo.args(["build", "--lib"]),
            _ if target == "lib" => cargo.args(["test", "--no-run", "--lib"]),
            _ => cargo.args(["build", "--bin", target]),
        };
        cargo.args(["--quiet", "--locked", "--message-format", "json", "--profile", profile]);
        cargo.args(["--package", package]).current_dir(project());
        let messages = output_of(&mut cargo)?;
        let file = messages.lines().find_map(|line| file_of(line, &name_of(program)));
        let path = file
            .ok_or_else(|| Problem::Usage(format!("{package} has no program or test {target}")))?;
        built.insert(program.clone(), path);
    }
    Ok(built)
}

/// Returns the executable of a target according to one of cargo's messages, or the shared library
/// of that name.
fn file_of(message: &str, target: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if target.ends_with(".so") {
        let files = message.get("filenames")?.as_array()?;
        let mut paths = files.iter().filter_map(|file| file.as_str()).map(PathBuf::from);
        return paths.find(|path| path.ends_with(target));
    }
    let executable = message.get("executable")?.as_str()?;
    (message.pointer("/target/name")?.as_str()? == target).then(|| executable.into())
}
