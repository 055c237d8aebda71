//! Control messages (cmsg(3)), written and read byte by byte and checked against the buffer's end.

use std::mem::size_of;

/// `cmsghdr`: a length, a level, a type.
const HEADER: usize = size_of::<libc::cmsghdr>();
/// CMSG_ALIGN rounds up to a `long`.
const ALIGN: usize = size_of::<usize>();
/// Room for three 64-bit stamps, an extended error with an IPv6 address, and four small messages.
pub(super) const ROOM: usize = 256;

const fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// A control buffer, aligned as the kernel wants it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Control<N> {
    pub(super) const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    /// Appends one message.
    ///
    /// # Panics
    /// If there is no room: callers push a small fixed number, and choose `N` for it.
    pub(super) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let start = self.len;
        let mut put = |at: usize, what: &[u8]| {
            self.bytes[start + at..start + at + what.len()].copy_from_slice(what);
        };
        put(0, &(HEADER + data.len()).to_ne_bytes());
        put(size_of::<usize>(), &level.to_ne_bytes());
        put(size_of::<usize>() + 4, &kind.to_ne_bytes());
        put(aligned(HEADER), data);
        self.len = start + aligned(HEADER) + aligned(data.len());
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first `len` bytes, after the kernel wrote them.
    pub(super) fn written(&self, len: usize) -> &[u8] {
        &self.bytes[..len.min(N)]
    }
}

/// One control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) level: i32,
    pub(super) kind: i32,
    pub(super) data: &'a [u8],
}

impl Message<'_> {
    /// Returns the `at`-th 32-bit word.
    pub(super) fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.data.get(4 * at..4 * at + 4)?.try_into().ok()?))
    }

    /// Returns the `at`-th 64-bit word.
    pub(super) fn long(&self, at: usize) -> Option<i64> {
        Some(i64::from_ne_bytes(self.data.get(8 * at..8 * at + 8)?.try_into().ok()?))
    }
}

/// An iterator over messages, which ends at the first that does not fit.
#[derive(Clone, Debug)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Iterates over messages that the kernel wrote.
    pub(super) fn of(control: &'a [u8]) -> Self {
        Self { rest: control }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        const WORD: usize = size_of::<usize>();
        let rest = self.rest;
        let len = usize::from_ne_bytes(rest.get(..WORD)?.try_into().ok()?);
        let int = |at: usize| Some(i32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?));
        let (level, kind) = (int(WORD)?, int(WORD + 4)?);
        let data = rest.get(aligned(HEADER)..len)?;
        self.rest = rest.get(aligned(len)..).unwrap_or_default();
        Some(Message { level, kind, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_in_order() {
        let mut control = Control::<64>::EMPTY;
        control.push(1, 2, &[7; 2]);
        control.push(3, 4, &[9; 8]);
        let read: Vec<_> = Messages::of(control.written(control.len())).collect();
        assert_eq!(read[0], Message { level: 1, kind: 2, data: &[7; 2] });
        assert_eq!(read[1], Message { level: 3, kind: 4, data: &[9; 8] });
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn the_layout_is_the_c_librarys() {
        let mut control = Control::<64>::EMPTY;
        control.push(1, 2, &[7; 2]);
        #[allow(unsafe_code)]
        // SAFETY: CMSG_SPACE is arithmetic.
        let space = unsafe { libc::CMSG_SPACE(2) };
        assert_eq!(control.len(), space as usize);
    }

    #[test]
    fn nonsense_ends_the_list() {
        for byte in [0, 1, 0x10, 0x7f, 0xff] {
            let control = Control::<64> { bytes: [byte; 64], len: 0 };
            for len in 0..=64 {
                assert!(Messages::of(control.written(len)).count() <= 4);
            }
        }
    }
}
