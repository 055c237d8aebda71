//! What a hostile client holds of a channel: memory and bells, its own or the server's.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use punctual_channel::client::Geometry;
use punctual_linux::memfd::{Others, Writable};
use punctual_linux::pass::Bell;
use rustix::net::sockopt::socket_type;
use serde_json::{Value, json};

use super::raw::Raw;

/// The word of the frames that counts published messages, and that with which descriptors begin
/// (`punctual_ring::frames`).
const PUSHED: usize = 8;
const DESCRIPTORS: usize = 512;

/// A channel that carries what its memory says.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) slots: u64,
    /// Frames, page, bells, and whatever else came.
    pub(super) files: Vec<OwnedFd>,
    pub(super) frames: Option<Writable>,
}

impl Queue {
    /// Opens a channel that was granted to this process, with memory and bells of the broker, or of its own
    /// if the broker will have it so. Keeps every descriptor, and a mapping of the frames. Returns what the
    /// broker said at last.
    ///
    /// # Errors
    /// If there is no such geometry, or no descriptor, memory or broker.
    pub(super) fn attach(
        socket: &Path,
        raw: &mut Raw,
        id: u64,
        slots: u64,
        bytes: u64,
    ) -> std::io::Result<(Self, Value)> {
        let length = length_of(slots, bytes)?;
        let mut answer = raw.ask(&json!({"attach_channel": {"grant": id, "first": true}}), &[]);
        let mut files = raw.take_files();
        let frames = if let [frames, ..] = files.as_slice() {
            let frames = writable(frames, length);
            if let Ok(frames) = &frames {
                fill_in(frames, slots, bytes);
            }
            answer = raw.ask(&json!({"mapped_channel": {"grant": id}}), &[]).or(answer);
            frames.ok()
        } else {
            // A broker that wants them from its clients closes the connection for a field that it does not
            // know. The channel is the process's.
            *raw = raw.again(socket)?;
            files = own(length, 4_096)?;
            let frames = writable(&files[0], length)?;
            fill_in(&frames, slots, bytes);
            let own: Vec<BorrowedFd<'_>> = files.iter().take(3).map(|one| one.as_fd()).collect();
            answer = raw.ask(&json!({"attach_channel": {"grant": id}}), &own);
            Some(frames)
        };
        Ok((Self { slots, files, frames }, answer.unwrap_or(Value::Null)))
    }

    /// The sockets among its files.
    pub(super) fn bells(&self) -> impl Iterator<Item = &OwnedFd> {
        self.files.iter().filter(|file| socket_type(file).is_ok())
    }

    /// Says that half a queue of messages more is there than the server has released.
    pub(super) fn publish(&self) {
        let Some(frames) = &self.frames else { return };
        let mut released = [0; 8];
        let page = self.files.get(1).map(|page| rustix::io::pread(page, &mut released, 0));
        if matches!(page, Some(Ok(8))) {
            let published = u64::from_ne_bytes(released).wrapping_add(self.slots / 2);
            frames.words()[PUSHED].store(published, Ordering::Release);
        }
    }

    /// Where the messages begin in the frames, in bytes; before are the counters and the descriptors.
    pub(super) fn messages(&self) -> u64 {
        4_096 + (16 * self.slots).next_multiple_of(4_096)
    }
}

/// How many bytes the frames of a queue have.
pub(super) fn length_of(slots: u64, bytes: u64) -> std::io::Result<usize> {
    let number = |number: u64| u32::try_from(number).map_err(std::io::Error::other);
    let geometry = Geometry::new(number(slots)?, number(bytes)?);
    Ok(geometry.map_err(std::io::Error::other)?.producer_bytes())
}

fn writable(file: &OwnedFd, length: usize) -> std::io::Result<Writable> {
    Writable::of(file.try_clone()?, length).map_err(std::io::Error::other)
}

/// Makes every slot a message of the longest size.
fn fill_in(frames: &Writable, slots: u64, bytes: u64) {
    let words = frames.words();
    let first = [u64::from_le_bytes(*b"frames 1"), slots, bytes];
    for (word, value) in words.iter().zip(first) {
        word.store(value, Ordering::Relaxed);
    }
    for slot in 0..slots as usize {
        words[DESCRIPTORS + 2 * slot].store(bytes, Ordering::Relaxed);
    }
}

/// Memory and bells as a client makes them: frames that its maker can still punch holes into, the page of
/// the consumer, the server's end of the bells, and the client's.
pub(super) fn own(frames: usize, page: usize) -> std::io::Result<Vec<OwnedFd>> {
    let make =
        |bytes| Writable::create("attack", bytes, Others::Write).map_err(std::io::Error::other);
    let ((_, frames), (_, page)) = (make(frames)?, make(page)?);
    let (ours, theirs) = Bell::pair().map_err(std::io::Error::other)?;
    Ok(vec![frames, page, theirs.into(), ours.into()])
}
