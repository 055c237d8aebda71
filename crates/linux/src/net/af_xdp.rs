//! One frame through AF_XDP (af_xdp.rst of the kernel's documentation): enough to see whether an
//! interface's driver takes frames from user memory, and whether without a copy.
#![allow(unsafe_code)]

use std::os::fd::{AsFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use crate::clock;

/// One page holds the frame; the kernel wants whole pages.
const PAGE: usize = 4096;
/// Entries of each ring: a power of two.
const ENTRIES: u32 = 2;
/// Where the rings are mapped from (linux/if_xdp.h).
const SEND_RING: u64 = 0x8000_0000;
const DONE_RING: u64 = 0x1_8000_0000;
/// The shortest Ethernet frame without its checksum.
const FRAME: u32 = 60;

/// Sends one frame through queue 0 of interface `index`, to an address that nobody has and with an
/// EtherType for local experiments (IEEE 802). Whether the driver has given the frame back by
/// `until`.
pub(super) fn send_one(index: u32, zero_copy: bool, until: Instant) -> Result<bool, Errno> {
    let fd =
        rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let memory = Mapping::anonymous()?;
    let mut frame = [0; FRAME as usize];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    // SAFETY: the mapping is a page, longer than a frame, and known to nobody else yet.
    unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), memory.start.cast(), frame.len()) };
    let umem = XdpUmemReg {
        addr: memory.start as u64,
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
    let send = Mapping::of(&fd, SEND_RING)?;
    let done = Mapping::of(&fd, DONE_RING)?;
    let how =
        if zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
    rustix::net::bind(&fd, &SocketAddrXdp::new(how, index, 0))?;

    // `xdp_desc`: place, length, options.
    let descriptor = send.at(offsets.tx.desc, 16).ok_or(Errno::PROTO)?;
    // SAFETY: inside the mapping by `at`; the kernel reads it only once the producer has moved.
    unsafe { descriptor.cast::<[u32; 4]>().write_unaligned([0, 0, FRAME, 0]) };
    send.word(offsets.tx.producer).ok_or(Errno::PROTO)?.store(1, Ordering::Release);
    let completed = done.word(offsets.cr.producer).ok_or(Errno::PROTO)?;
    loop {
        // Takes nothing but a kick; a busy driver is kicked again.
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

/// One page of memory, unmapped when dropped.
struct Mapping {
    start: *mut libc::c_void,
}

impl Mapping {
    fn anonymous() -> Result<Self, Errno> {
        let how = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of our own where the kernel likes.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, how, MapFlags::PRIVATE) }?;
        Ok(Self { start })
    }

    /// A ring of two entries and its header: less than a page.
    fn of(fd: &OwnedFd, offset: u64) -> Result<Self, Errno> {
        let how = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a mapping of our own where the kernel likes.
        let start = unsafe { mmap(ptr::null_mut(), PAGE, how, flags, fd.as_fd(), offset) }?;
        Ok(Self { start })
    }

    /// `len` bytes at an offset that the kernel told, if they are inside.
    fn at(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = offset.checked_add(len)? <= PAGE;
        // SAFETY: inside the mapping.
        inside.then(|| unsafe { self.start.cast::<u8>().add(offset) })
    }

    /// A ring's index, shared with the kernel.
    fn word(&self, offset: u64) -> Option<&AtomicU32> {
        let at = self.at(offset, 4)?.cast::<u32>();
        // SAFETY: inside the mapping, which `self` keeps, and aligned as checked; the kernel uses it
        // atomically too.
        at.is_aligned().then(|| unsafe { AtomicU32::from_ptr(at) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `self` with this length; nothing borrowed from it is left.
        let _ = unsafe { munmap(self.start, PAGE) };
    }
}
