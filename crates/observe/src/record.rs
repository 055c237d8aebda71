//! The records of `bpf/observe.bpf.c`, in its layout.

use punctual_model::{Duration, Instant};
use punctual_trace::kernel::{Class, Comm, Interrupt, KernelEvent, Left, Place, Record, Seen};

/// The lengths of the head, of a thread's description, of a place, and of the two longer records, in
/// bytes.
const HEAD: usize = 24;
const THREAD: usize = 24;
const WOKEN: usize = HEAD + THREAD;
const PLACE: usize = 16;
const SWITCHED: usize = HEAD + 2 * THREAD + 8 + PLACE;

/// `NOBODY` and `NO_SYSCALL`.
const NONE: u32 = u32::MAX;
const ASLEEP: u8 = 1;
const UNINTERRUPTIBLE: u8 = 2;

/// Decodes a record; returns `None` if none of our programs wrote it.
pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
    let head = bytes.get(..HEAD)?;
    let at = Instant::from_nanos(long(head, 0));
    let cpu = u16::from_ne_bytes([head[8], head[9]]);
    let (kind, flag) = (head[10], head[11]);
    let (number, value) = (word(head, 12), long(head, 16));
    let enter = flag != 0;
    let what = match kind {
        1 => {
            let rest = bytes.get(HEAD..SWITCHED)?;
            let left = if flag & ASLEEP == 0 {
                Left::Preempted
            } else {
                let syscall = Some(number).filter(|&number| number != NONE);
                let at = &rest[2 * THREAD + 8..];
                let place = Place { first: long(at, 0), second: word(at, 8), stack: word(at, 12) };
                Left::Asleep { uninterruptible: flag & UNINTERRUPTIBLE != 0, syscall, place }
            };
            let (prev, next) = (seen(rest), seen(&rest[THREAD..]));
            let next_exec_ns = long(rest, 2 * THREAD);
            KernelEvent::Switch { prev, left, prev_exec_ns: value, next, next_exec_ns }
        }
        2 => {
            let waker = Some(seen(bytes.get(HEAD..WOKEN)?)).filter(|waker| waker.tid != NONE);
            KernelEvent::Waking { tid: number, waker }
        }
        3 => KernelEvent::Moves { tid: number, on: u16::try_from(value).ok()? },
        4 => KernelEvent::HardIrq { vector: Interrupt::Line(number), enter },
        5 => KernelEvent::HardIrq { vector: Interrupt::LocalTimer, enter },
        6 => KernelEvent::HardIrq { vector: Interrupt::FromCpu, enter },
        7 => KernelEvent::SoftIrq { vector: u8::try_from(number).ok()?, enter },
        8 => KernelEvent::PageFault { tid: number, took: Duration::from_nanos(value) },
        9 => KernelEvent::TimerDue { due: Instant::from_nanos(value) },
        10 => KernelEvent::Gap { records: number },
        _ => return None,
    };
    Some(Record { at, cpu, what })
}

fn seen(bytes: &[u8]) -> Seen {
    let tid = word(bytes, 0);
    let class = Class::of_kernel_prio(word(bytes, 4).cast_signed(), tid);
    let mut comm = [0; 16];
    comm.copy_from_slice(&bytes[8..24]);
    Seen { tid, comm: Comm(comm), class }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([0, 1, 2, 3].map(|i| bytes[at + i]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u8, flag: u8, number: u32, value: u64) -> Vec<u8> {
        let mut bytes = 77u64.to_ne_bytes().to_vec();
        bytes.extend(3u16.to_ne_bytes());
        bytes.extend([kind, flag]);
        bytes.extend(number.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    fn thread(tid: u32, prio: i32, comm: &str) -> Vec<u8> {
        let mut bytes = tid.to_ne_bytes().to_vec();
        bytes.extend(prio.to_ne_bytes());
        bytes.extend(Comm::from(comm).0);
        bytes
    }

    #[test]
    fn a_switch_is_read_with_both_threads() {
        let mut bytes = head(1, 1, 230, 5);
        bytes.extend(thread(10, 120, "sleeper"));
        bytes.extend(thread(20, 9, "urgent"));
        bytes.extend(6u64.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(8u32.to_ne_bytes());
        bytes.extend(9u32.to_ne_bytes());
        let prev = Seen { tid: 10, comm: "sleeper".into(), class: Class::Ordinary };
        let next = Seen { tid: 20, comm: "urgent".into(), class: Class::RealTime(90) };
        let place = Place { first: 7, second: 8, stack: 9 };
        let left = Left::Asleep { uninterruptible: false, syscall: Some(230), place };
        let what = KernelEvent::Switch { prev, left, prev_exec_ns: 5, next, next_exec_ns: 6 };
        let record = Record { at: Instant::from_nanos(77), cpu: 3, what };
        assert_eq!(decode(&bytes), Some(record));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn a_wake_up_by_an_interrupt_has_no_waker() {
        let mut bytes = head(2, 0, 4711, 0);
        bytes.extend(thread(NONE, 0, ""));
        let what = decode(&bytes).expect("a record").what;
        assert_eq!(what, KernelEvent::Waking { tid: 4711, waker: None });
    }

    #[test]
    fn short_records_are_read_and_unknown_ones_refused() {
        let what = |bytes: &[u8]| decode(bytes).map(|record| record.what);
        assert_eq!(what(&head(7, 1, 3, 0)), Some(KernelEvent::SoftIrq { vector: 3, enter: true }));
        assert_eq!(
            what(&head(9, 0, 0, 8)),
            Some(KernelEvent::TimerDue { due: Instant::from_nanos(8) })
        );
        assert_eq!(what(&head(7, 1, 300, 0)), None);
        assert_eq!(what(&head(99, 0, 0, 0)), None);
        assert_eq!(what(&[1; 5]), None);
    }
}
