//! XDP by bpf(2): programs attached as links that end with their descriptors, and two programs of
//! two instructions for probes. Programs that do something are `punctual_bpf`'s.
//!
//! For probes there is also one frame through AF_XDP (af_xdp.rst of the kernel's documentation):
//! enough to find out whether an interface's driver takes frames from user memory, and whether it
//! does so without a copy.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, ptr};

use punctual_model::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use crate::clock;
use crate::mapping::Mapping;

/// Commands (linux/bpf.h).
const LOAD: i32 = 5;
const LINK: i32 = 28;
/// BPF_PROG_TYPE_XDP, and the attach type BPF_XDP.
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// The frame's memory: one page, because the kernel wants whole pages.
const PAGE: usize = 4096;
/// Entries of each ring: a power of two.
const ENTRIES: u32 = 2;
/// The offsets at which the rings are mapped (linux/if_xdp.h).
const SEND_RING: u64 = 0x8000_0000;
const DONE_RING: u64 = 0x1_8000_0000;
/// The shortest Ethernet frame without its checksum.
const FRAME: u32 = 60;

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

/// Sends one frame through queue 0 of interface `index`, to an unused address and with an EtherType
/// for local experiments (IEEE 802). Returns true if the driver has given the frame back by
/// `until`.
pub(super) fn send_one(index: u32, zero_copy: bool, until: Instant) -> Result<bool, Errno> {
    let fd =
        rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let memory = Page::anonymous()?;
    let mut frame = [0; FRAME as usize];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    // SAFETY: the mapping is a page, longer than a frame, and not shared with the kernel yet.
    unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), memory.start(), frame.len()) };
    let umem = XdpUmemReg {
        addr: memory.start() as u64,
        len: PAGE as u64,
        chunk_size: PAGE as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(&fd, umem)?;
    sockopt::set_xdp_umem_fill_ring_size(&fd, ENTRIES)?;
    sockopt::set_xdp_umem_completion_ring_size(&fd, ENTRIES)?;
    sockopt::set_xdp_tx_ring_size(&fd, ENTRIES)?;
    let offsets = sockopt::xdp_mmap_offsets(&fd)?;
    let send = Page::of(&fd, SEND_RING)?;
    let done = Page::of(&fd, DONE_RING)?;
    let how =
        if zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
    rustix::net::bind(&fd, &SocketAddrXdp::new(how, index, 0))?;

    // `xdp_desc`: place, length, options.
    let descriptor = send.at(offsets.tx.desc, 16).ok_or(Errno::PROTO)?;
    // SAFETY: `at` checked that the 16 bytes lie inside the mapping; the kernel reads them only
    // once the producer index has moved.
    unsafe { descriptor.cast::<[u32; 4]>().write_unaligned([0, 0, FRAME, 0]) };
    send.word(offsets.tx.producer).ok_or(Errno::PROTO)?.store(1, Ordering::Release);
    let completed = done.word(offsets.cr.producer).ok_or(Errno::PROTO)?;
    loop {
        // This only notifies the driver; a busy driver is notified again.
        match rustix::net::send(&fd, &[], SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {}
            Err(errno) => return Err(errno),
        }
        if completed.load(Ordering::Acquire) == 1 {
            return Ok(true);
        }
        if clock::now() > until {
            return Ok(false);
        }
        clock::sleep(Duration::from_micros(200));
    }
}

/// One page of memory: of the frame, or of a ring of two entries and its header.
struct Page(Mapping);

impl Page {
    fn anonymous() -> Result<Self, Errno> {
        Mapping::anonymous(PAGE, MapFlags::PRIVATE).map(Self)
    }

    fn of(fd: &OwnedFd, offset: u64) -> Result<Self, Errno> {
        Mapping::of(fd, offset, PAGE, true, MapFlags::POPULATE).map(Self)
    }

    fn start(&self) -> *mut u8 {
        self.0.start().as_ptr().cast()
    }

    /// Returns the address of `len` bytes at an offset that the kernel gave, if they lie inside.
    fn at(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = offset.checked_add(len)? <= PAGE;
        // SAFETY: the offset was checked to lie inside the mapping.
        inside.then(|| unsafe { self.start().add(offset) })
    }

    /// Returns a ring's index, which the kernel shares.
    fn word(&self, offset: u64) -> Option<&AtomicU32> {
        let at = self.at(offset, 4)?.cast::<u32>();
        // SAFETY: the word lies inside the mapping, which `self` keeps, and is aligned as checked;
        // the kernel uses it atomically, too.
        at.is_aligned().then(|| unsafe { AtomicU32::from_ptr(at) })
    }
}
