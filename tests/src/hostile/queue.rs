//! The memory and bells of a channel that a hostile client holds: the server's, or forged ones.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use punctual_channel::client::Geometry;
use punctual_linux::clock;
use punctual_linux::memfd::{Others, Writable};
use punctual_linux::pass::Bell;
use punctual_model::Duration;
use rustix::net::sockopt::socket_type;
use serde_json::{Value, json};

use super::raw::Raw;

/// The offsets of the word that counts published messages in the frames, and of the first
/// descriptor (`punctual_ring::frames`).
const PUSHED: usize = 8;
const DESCRIPTORS: usize = 512;

/// How long to wait for a queue to be sealed.
const SEALING: Duration = Duration::from_secs(20);

/// A channel that carries whatever its memory says.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) slots: u64,
    /// The frames, the page, the bells, and any other files.
    pub(super) files: Vec<OwnedFd>,
    pub(super) frames: Option<Writable>,
}

impl Queue {
    /// Opens a channel that was granted to this process, with memory and bells of the broker. Keeps
    /// every descriptor, and a mapping of the frames. Returns the broker's last answer.
    ///
    /// # Errors
    /// Fails if there is no such geometry, or no descriptor or memory.
    pub(super) fn attach(
        raw: &mut Raw,
        id: u64,
        slots: u64,
        bytes: u64,
    ) -> std::io::Result<(Self, Value)> {
        let length = length_of(slots, bytes)?;
        let mut answer = raw.ask(&json!({"attach_channel": {"grant": id, "first": 0}}), &[]);
        let files = raw.take_files();
        let frames = files.first().and_then(|frames| writable(frames, length).ok());
        if let Some(frames) = &frames {
            fill_in(frames, slots, bytes);
            let until = clock::now() + SEALING;
            loop {
                answer = raw.ask(&json!({"mapped_channel": {"grant": id}}), &[]);
                if answer.as_ref().is_none_or(|said| said != "sealing") || clock::now() >= until {
                    break;
                }
                clock::sleep(Duration::from_millis(1));
            }
        }
        Ok((Self { slots, files, frames }, answer.unwrap_or(Value::Null)))
    }

    /// Rings the server, which watches the last of the descriptors.
    pub(super) fn ring(&self) {
        if let Some(doorbell) = self.files.get(3) {
            let _ = rustix::io::write(doorbell, &1_u64.to_ne_bytes());
        }
    }

    /// Returns the sockets among its files.
    pub(super) fn bells(&self) -> impl Iterator<Item = &OwnedFd> {
        self.files.iter().filter(|file| socket_type(file).is_ok())
    }

    /// Publishes half a queue more messages than the server has released.
    pub(super) fn publish(&self) {
        let Some(frames) = &self.frames else { return };
        let mut released = [0; 8];
        let page = self.files.get(1).map(|page| rustix::io::pread(page, &mut released, 0));
        if matches!(page, Some(Ok(8))) {
            let published = u64::from_ne_bytes(released).wrapping_add(self.slots / 2);
            frames.words()[PUSHED].store(published, Ordering::Release);
        }
    }

    /// Returns where the messages begin in the frames, in bytes, after the counters and the
    /// descriptors.
    pub(super) fn messages(&self) -> u64 {
        4_096 + (16 * self.slots).next_multiple_of(4_096)
    }
}

/// Returns the size of the frames of a queue, in bytes.
pub(super) fn length_of(slots: u64, bytes: u64) -> std::io::Result<usize> {
    let number = |number: u64| u32::try_from(number).map_err(std::io::Error::other);
    let geometry = Geometry::new(number(slots)?, number(bytes)?);
    Ok(geometry.map_err(std::io::Error::other)?.producer_bytes())
}

fn writable(file: &OwnedFd, length: usize) -> std::io::Result<Writable> {
    Writable::of(file.try_clone()?, length).map_err(std::io::Error::other)
}

/// Makes every slot a message of the greatest size.
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

/// Makes memory and bells as a client makes them: frames into which their maker can still punch
/// holes, the page of the consumer, the server's end of the bells, and the client's.
pub(super) fn own(frames: usize, page: usize) -> std::io::Result<Vec<OwnedFd>> {
    let make =
        |bytes| Writable::create("attack", bytes, Others::Write).map_err(std::io::Error::other);
    let ((_, frames), (_, page)) = (make(frames)?, make(page)?);
    let (ours, theirs) = Bell::pair().map_err(std::io::Error::other)?;
    Ok(vec![frames, page, theirs.into(), ours.into()])
}
