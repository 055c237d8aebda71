//! bpf(2): programs assembled here, loaded, tried out, and attached as links that end with their
//! descriptors; and the tables that they share with us.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

/// Commands (linux/bpf.h).
const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const LOAD: i32 = 5;
const TEST_RUN: i32 = 10;
const LINK: i32 = 28;
/// BPF_MAP_TYPE_HASH, BPF_PROG_TYPE_XDP, and the attach type BPF_XDP.
const TYPE_HASH: u32 = 1;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// What a program says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// XDP_DROP.
    Drop = 1,
    /// XDP_PASS.
    Pass = 2,
}

/// One instruction: code, registers, offset, constant (instruction-set.rst of the kernel's
/// documentation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) constant: i32,
}

/// The beginning of `bpf_attr` for BPF_PROG_LOAD, as far as the attach type (Linux 4.17).
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    program: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

/// The beginning of `bpf_attr` for BPF_LINK_CREATE (Linux 5.9).
#[repr(C)]
struct Link {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// The beginning of `bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
struct Create {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

/// `bpf_attr` for the commands on elements of tables.
#[repr(C)]
struct Element {
    table: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The beginning of `bpf_attr` for BPF_PROG_TEST_RUN (Linux 4.12).
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    returned: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// Loads a program that says the same of every packet.
pub(super) fn always(action: Action) -> Result<OwnedFd, Errno> {
    // r0 = action; exit.
    load(&[
        Instruction { code: 0xb7, registers: 0, offset: 0, constant: action as i32 },
        Instruction { code: 0x95, registers: 0, offset: 0, constant: 0 },
    ])
}

/// Loads an XDP program; the kernel checks it.
pub(super) fn load(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let mut load = Load {
        kind: TYPE_XDP,
        instructions: program.len() as u32,
        program: program.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        attach: ATTACH_XDP,
        ..Load::default()
    };
    // SAFETY: `load` is laid out as `bpf_attr` for this command; the program and the licence, both
    // alive until the call returns, are only read.
    unsafe { descriptor(LOAD, &mut load) }
}

/// Attaches a program to an interface until the descriptor is closed. `flags`: XDP_FLAGS_SKB_MODE
/// (2) or XDP_FLAGS_DRV_MODE (4).
pub(super) fn attach(program: &OwnedFd, interface: u32, flags: u32) -> Result<OwnedFd, Errno> {
    let program = number(program);
    let mut link = Link { program, interface, attach: ATTACH_XDP, flags };
    // SAFETY: `link` is laid out as `bpf_attr` for this command and holds no address.
    unsafe { descriptor(LINK, &mut link) }
}

/// What the program says of a packet, which never was on any interface.
pub(super) fn test_run(program: &OwnedFd, packet: &[u8]) -> Result<u32, Errno> {
    let mut run = TestRun {
        program: number(program),
        bytes_in: packet.len() as u32,
        data_in: packet.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: `run` is laid out as `bpf_attr` for this command; the packet is only read, and nothing is
    // written elsewhere than to `run`.
    unsafe { call(TEST_RUN, &mut run) }?;
    Ok(run.returned)
}

/// A hash table that programs look into, with keys and values of fixed sizes.
#[derive(Debug)]
pub(super) struct Table<const KEY: usize, const VALUE: usize>(OwnedFd);

impl<const KEY: usize, const VALUE: usize> Table<KEY, VALUE> {
    pub(super) fn new(entries: u32) -> Result<Self, Errno> {
        let (key_bytes, value_bytes) = (KEY as u32, VALUE as u32);
        let mut create = Create { kind: TYPE_HASH, key_bytes, value_bytes, entries };
        // SAFETY: `create` is laid out as `bpf_attr` for this command and holds no address.
        unsafe { descriptor(MAP_CREATE, &mut create) }.map(Self)
    }

    /// For the instruction that loads its address.
    pub(super) fn number(&self) -> u32 {
        number(&self.0)
    }

    /// Sets or replaces. E2BIG: it is full.
    pub(super) fn set(&self, key: [u8; KEY], value: [u8; VALUE]) -> Result<(), Errno> {
        let mut value = value;
        self.element(MAP_UPDATE, &key, &mut value)
    }

    /// `None` if there is none.
    pub(super) fn get(&self, key: [u8; KEY]) -> Result<Option<[u8; VALUE]>, Errno> {
        let mut value = [0; VALUE];
        match self.element(MAP_LOOKUP, &key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether there was one.
    pub(super) fn remove(&self, key: [u8; KEY]) -> Result<bool, Errno> {
        match self.element(MAP_DELETE, &key, &mut [0; VALUE]) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn element(&self, command: i32, key: &[u8; KEY], value: &mut [u8; VALUE]) -> Result<(), Errno> {
        // BPF_MAP_DELETE_ELEM wants what follows the key to be zero.
        let address = if command == MAP_DELETE { 0 } else { value.as_mut_ptr() as u64 };
        let key = key.as_ptr() as u64;
        let mut element =
            Element { table: number(&self.0), _pad: 0, key, value: address, flags: 0 };
        // SAFETY: `element` is laid out as `bpf_attr` for these commands. The key is read, and the value
        // read or written, with the sizes with which the table was made, which are those of the arrays.
        unsafe { call(command, &mut element) }.map(|_| ())
    }
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// # Safety
/// As [`call`], for a command that gives a descriptor.
unsafe fn descriptor<T>(command: i32, attr: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's.
    let fd = unsafe { call(command, attr) }?;
    // SAFETY: the kernel made this descriptor for us alone; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// `attr` is laid out as `bpf_attr` for `command`; addresses in it are good for what the kernel does
/// with them until the call returns.
unsafe fn call<T>(command: i32, attr: &mut T) -> Result<i32, Errno> {
    // SAFETY: the caller's.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    match i32::try_from(done) {
        Ok(done) if done >= 0 => Ok(done),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
