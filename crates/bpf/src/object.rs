//! An object in the kernel.

use std::os::fd::OwnedFd;
use std::path::Path;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    ErrorKind, Link, MapCore, ObjectBuilder, OpenProgramMut, ProgramInput, ProgramMut,
};
use punctual_model::time::Duration;

use super::{
    Array, AttachError, CpuClock, LoadError, MapError, PageFaults, Ring, RunError, Table, error,
};

/// The programs and maps of one object, checked by the kernel. Dropping it frees them; an attached
/// program stays until its own guard is dropped.
#[derive(Debug)]
pub struct Object(libbpf_rs::Object);

/// A program attached as its section says, until this is dropped.
#[derive(Debug)]
pub struct Attached(#[expect(dead_code, reason = "held for its drop")] Link);

impl Object {
    /// Loads an object that clang made. `name` is for messages. `sizes` overrides the number of
    /// entries of maps, by name.
    ///
    /// ```no_run
    /// use punctual_bpf::Object;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bytes = std::fs::read("driver.bpf.o")?;
    /// let object = Object::load("the driver", &bytes, &[("lines", 64)])?;
    /// let lines = object.array("lines")?;
    /// assert_eq!(object.run("start")?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A [`LoadError`]; then nothing is in the kernel.
    pub fn load(
        name: &'static str,
        bytes: &[u8],
        sizes: &[(&str, u32)],
    ) -> Result<Self, LoadError> {
        Self::load_without(&[], name, bytes, sizes)
    }

    /// Does the same without some of its programs: those that are optional and that not every
    /// kernel accepts.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_without(
        programs: &[&str],
        name: &'static str,
        bytes: &[u8],
        sizes: &[(&str, u32)],
    ) -> Result<Self, LoadError> {
        error::capture();
        let mut open = ObjectBuilder::default()
            .open_memory(bytes)
            .map_err(|why| LoadError::NotAnObject { object: name, why: why.to_string() })?;
        for &(map, entries) in sizes {
            let refuse = |why: String| {
                let map = map.to_owned();
                LoadError::Size { object: name, map, entries, why }
            };
            open.maps_mut()
                .find(|candidate| candidate.name() == map)
                .ok_or_else(|| refuse("there is no such map".to_owned()))?
                .set_max_entries(entries)
                .map_err(|why| refuse(why.to_string()))?;
        }
        let is_unwanted = |program: &OpenProgramMut<'_>| {
            programs.iter().any(|unwanted| program.name() == *unwanted)
        };
        open.progs_mut().filter(is_unwanted).for_each(|mut program| program.set_autoload(false));
        open.load().map(Self).map_err(|why| match (why.kind(), error::last()) {
            // The verifier refuses programs with EACCES, too, and then writes a log.
            (ErrorKind::PermissionDenied, log) if !log.contains(error::CHECKED) => {
                LoadError::Privilege { object: name }
            }
            _ if !Path::new("/sys/kernel/btf/vmlinux").exists() => {
                LoadError::NoBtf { object: name }
            }
            (_, log) => LoadError::Refused { object: name, why: why.to_string(), log },
        })
    }

    /// Runs a `SEC("syscall")` program once, in the calling thread, and returns its result.
    ///
    /// # Errors
    /// A [`RunError`].
    pub fn run(&self, program: &str) -> Result<u32, RunError> {
        self.run_with(program, ProgramInput::default())
    }

    /// Runs a program once on a packet that never was on any interface, and returns its verdict.
    ///
    /// # Errors
    /// A [`RunError`].
    pub fn run_on(&self, program: &str, packet: &[u8]) -> Result<u32, RunError> {
        self.run_with(program, ProgramInput { data_in: Some(packet), ..ProgramInput::default() })
    }

    fn run_with(&self, program: &str, input: ProgramInput<'_>) -> Result<u32, RunError> {
        let found = self.program(program).ok_or_else(|| RunError::NoProgram {
            program: program.to_owned(),
            there: self.programs(),
        })?;
        let refuse = |why: libbpf_rs::Error| RunError::Refused {
            program: program.to_owned(),
            why: why.to_string(),
        };
        Ok(found.test_run(input).map_err(refuse)?.return_value)
    }

    /// Runs a `SEC("perf_event")` program on that CPU every `period`, in the hard interrupt of a
    /// timer (the `cpu-clock` of perf_event_open(2)), until the result is dropped. The kernel
    /// chooses the phase. A run is skipped while another tracing program runs there.
    ///
    /// A successful attachment does not prove that the clock fires: on some virtual CPUs it does
    /// not when they are idle. Check that it did.
    ///
    /// # Errors
    /// An [`AttachError`].
    pub fn on_cpu_clock(
        &self,
        program: &str,
        cpu: usize,
        period: Duration,
    ) -> Result<CpuClock, AttachError> {
        CpuClock::start(&self.found(program)?, cpu, period)
    }

    /// Runs a `SEC("perf_event")` program in this thread at the end of each of its page faults.
    ///
    /// # Errors
    /// An [`AttachError`].
    pub fn on_page_faults(&self, program: &str, tid: u32) -> Result<PageFaults, AttachError> {
        PageFaults::of(&self.found(program)?, tid)
    }

    /// Attaches a program as its section says (`raw_tracepoint/…`, `tp_btf/…`, `tracepoint/…`).
    ///
    /// # Errors
    /// An [`AttachError`].
    pub fn attach(&self, program: &str) -> Result<Attached, AttachError> {
        error::capture();
        self.found(program)?.attach().map(Attached).map_err(|why| AttachError::Refused {
            program: program.to_owned(),
            why: format!("{why} {}", error::last()).trim_end().to_owned(),
        })
    }

    /// Maps the memory of an array map that was made to be mapped (BPF_F_MMAPABLE).
    ///
    /// # Errors
    /// A [`MapError`].
    pub fn array(&self, map: &str) -> Result<Array, MapError> {
        Array::of(&self.map(map)?, map)
    }

    /// Opens a hash table that the programs look up.
    ///
    /// # Errors
    /// A [`MapError`].
    pub fn table(&self, map: &str) -> Result<Table, MapError> {
        Table::of(&self.map(map)?, map)
    }

    /// Opens a ring buffer (BPF_MAP_TYPE_RINGBUF); `each` gets every record as it is read.
    ///
    /// # Errors
    /// A [`MapError`].
    pub fn ring<'a>(
        &self,
        map: &str,
        each: impl FnMut(&[u8]) + Send + 'a,
    ) -> Result<Ring<'a>, MapError> {
        Ring::of(&self.map(map)?, map, each)
    }

    /// Returns the kernel's ids of its programs, for checks that they are gone.
    pub fn program_ids(&self) -> Vec<u32> {
        use std::os::fd::AsFd as _;
        let id = |program: ProgramMut<'_>| libbpf_rs::Program::id_from_fd(program.as_fd()).ok();
        self.0.progs_mut().filter_map(id).collect()
    }

    /// Returns how often the kernel did not run one of its programs, because it was running already
    /// on that CPU. A kernel before 5.12 does not count it.
    pub fn skipped(&self) -> u64 {
        let ours = self.program_ids();
        let programs = ProgInfoIter::default().filter(|program| ours.contains(&program.id));
        programs.map(|program| program.recursion_misses).sum()
    }

    /// Returns a descriptor of a program, for an attachment that the loader has no words for.
    pub(crate) fn descriptor(&self, program: &str) -> Result<OwnedFd, RunError> {
        use std::os::fd::AsFd as _;
        let found = self.program(program).ok_or_else(|| RunError::NoProgram {
            program: program.to_owned(),
            there: self.programs(),
        })?;
        found
            .as_fd()
            .try_clone_to_owned()
            .map_err(|why| RunError::Refused { program: program.to_owned(), why: why.to_string() })
    }

    fn program(&self, name: &str) -> Option<ProgramMut<'_>> {
        self.0.progs_mut().find(|program| program.name() == name)
    }

    fn found(&self, program: &str) -> Result<ProgramMut<'_>, AttachError> {
        self.program(program).ok_or_else(|| AttachError::NoProgram {
            program: program.to_owned(),
            there: self.programs(),
        })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, MapError> {
        self.0.maps().find(|map| map.name() == name).ok_or_else(|| MapError::NoMap {
            map: name.to_owned(),
            there: listed(self.0.maps().map(|map| map.name().to_string_lossy().into_owned())),
        })
    }

    fn programs(&self) -> String {
        listed(self.0.progs().map(|program| program.name().to_string_lossy().into_owned()))
    }
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
