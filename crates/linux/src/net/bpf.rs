//! bpf(2): XDP programs attached as links that end with their descriptors, and two programs of two
//! instructions for probes. Programs that do something are `punctual_bpf`'s.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

/// Commands (linux/bpf.h).
const LOAD: i32 = 5;
const LINK: i32 = 28;
/// BPF_PROG_TYPE_XDP, and the attach type BPF_XDP.
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// A program's decision about a packet.
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
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    constant: i32,
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

/// Loads a program that decides the same for every packet.
pub(super) fn always(action: Action) -> Result<OwnedFd, Errno> {
    // r0 = action; exit.
    load(&[
        Instruction { code: 0xb7, registers: 0, offset: 0, constant: action as i32 },
        Instruction { code: 0x95, registers: 0, offset: 0, constant: 0 },
    ])
}

/// Loads an XDP program; the kernel checks it.
fn load(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let mut load = Load {
        kind: TYPE_XDP,
        instructions: program.len() as u32,
        program: program.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        attach: ATTACH_XDP,
        ..Load::default()
    };
    // SAFETY: `load` is laid out as `bpf_attr` for this command; the kernel only reads the program
    // and the licence, and both outlive the call.
    unsafe { descriptor(LOAD, &mut load) }
}

/// Attaches a program to an interface until the descriptor is closed. `flags` is XDP_FLAGS_SKB_MODE
/// (2) or XDP_FLAGS_DRV_MODE (4).
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    flags: u32,
) -> Result<OwnedFd, Errno> {
    let program = program.as_raw_fd().cast_unsigned();
    let mut link = Link { program, interface, attach: ATTACH_XDP, flags };
    // SAFETY: `link` is laid out as `bpf_attr` for this command and holds no address.
    unsafe { descriptor(LINK, &mut link) }
}

/// Calls bpf(2) with a command that returns a descriptor.
///
/// # Safety
/// As [`call`].
unsafe fn descriptor<T>(command: i32, attr: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller fulfils the obligation of `call`.
    let fd = unsafe { call(command, attr) }?;
    // SAFETY: the kernel made this descriptor for us alone; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2).
///
/// # Safety
/// `attr` is laid out as `bpf_attr` for `command`. Addresses in it are valid, until the call
/// returns, for the reads and writes that the kernel makes for the command.
unsafe fn call<T>(command: i32, attr: &mut T) -> Result<i32, Errno> {
    // SAFETY: the caller fulfils the obligation above; `attr` has `size_of::<T>()` bytes.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    match i32::try_from(done) {
        Ok(done) if done >= 0 => Ok(done),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
