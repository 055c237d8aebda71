//! The records of `bpf/observe.bpf.c`, in its layout.

use punctual_model::{Duration, Instant};
use punctual_trace::kernel::{
    Class, Comm, Interrupt, KernelEvent, Left, Place, Record, Seen, Wake,
};

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
const STOPPED: u8 = 4;
const TRACED: u8 = 8;
const FROZEN: u8 = 16;
const THROTTLED: u8 = 32;
/// The number of levels if it is not known.
const NO_LEVEL: u8 = 0xff;
const WAS_FROZEN: u8 = 1;
const TO_STOP: u8 = 2;
/// The number of a system call if there were several.
const SEVERAL: u64 = 0xffff;

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
            let left = match flag {
                STOPPED => Left::Stopped { process: number },
                TRACED => Left::Traced,
                FROZEN => Left::Frozen,
                THROTTLED => Left::Throttled { levels: levels(number.into())? },
                _ if flag & ASLEEP == 0 => Left::Preempted,
                _ => {
                    let syscall = Some(number).filter(|&number| number != NONE);
                    let at = &rest[2 * THREAD + 8..];
                    let place =
                        Place { first: long(at, 0), second: word(at, 8), stack: word(at, 12) };
                    Left::Asleep { uninterruptible: flag & UNINTERRUPTIBLE != 0, syscall, place }
                }
            };
            let (prev, next) = (seen(rest), seen(&rest[THREAD..]));
            let next_exec_ns = long(rest, 2 * THREAD);
            KernelEvent::Switch { prev, left, prev_exec_ns: value, next, next_exec_ns }
        }
        2 => {
            let waker = Some(seen(bytes.get(HEAD..WOKEN)?)).filter(|waker| waker.tid != NONE);
            let wake = match flag {
                WAS_FROZEN => Wake::OfFrozen,
                TO_STOP => Wake::ToStop,
                _ => Wake::ToRun,
            };
            KernelEvent::Waking { tid: number, waker, wake }
        }
        3 => KernelEvent::Moves { tid: number, on: u16::try_from(value).ok()? },
        4 => KernelEvent::HardIrq { vector: Interrupt::Line(number), enter },
        5 => KernelEvent::HardIrq { vector: Interrupt::LocalTimer, enter },
        6 => KernelEvent::HardIrq { vector: Interrupt::FromCpu, enter },
        7 => KernelEvent::SoftIrq { vector: u8::try_from(number).ok()?, enter },
        8 => KernelEvent::PageFault { tid: number, took: Duration::from_nanos(value) },
        9 => {
            let of = Some(number).filter(|&tid| tid != 0);
            KernelEvent::TimerDue { due: Instant::from_nanos(value), of }
        }
        10 => KernelEvent::Gap { records: number },
        11 => KernelEvent::InSystemCall {
            tid: number,
            syscall: u32::try_from(value & SEVERAL).ok().filter(|_| value & SEVERAL != SEVERAL),
            took: Duration::from_nanos(value >> 16),
            until_now: enter,
        },
        12 => {
            let sender = seen(bytes.get(HEAD..WOKEN)?);
            KernelEvent::StopSignal { process: number, sender }
        }
        13 => KernelEvent::WokenThrottled { tid: number, levels: levels(value)? },
        _ => return None,
    };
    Some(Record { at, cpu, what })
}

/// Decodes the level of a group with a quota, which may not be known.
fn levels(number: u64) -> Option<Option<u8>> {
    let levels = u8::try_from(number).ok()?;
    Some(Some(levels).filter(|&levels| levels != NO_LEVEL))
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
    fn the_reason_why_a_thread_left_is_read() {
        let left = |flag, number| {
            let mut bytes = head(1, flag, number, 5);
            bytes.extend(thread(10, 120, "sleeper"));
            bytes.extend(thread(20, 9, "urgent"));
            bytes.extend(6u64.to_ne_bytes());
            bytes.extend([0; 16]);
            match decode(&bytes)?.what {
                KernelEvent::Switch { left, .. } => Some(left),
                _ => None,
            }
        };
        assert_eq!(left(0, NONE), Some(Left::Preempted));
        let asleep = Left::Asleep { uninterruptible: true, syscall: None, place: Place::default() };
        assert_eq!(left(3, NONE), Some(asleep));
        assert_eq!(left(4, 4711), Some(Left::Stopped { process: 4711 }));
        assert_eq!(left(8, NONE), Some(Left::Traced));
        assert_eq!(left(16, NONE), Some(Left::Frozen));
        assert_eq!(left(32, 2), Some(Left::Throttled { levels: Some(2) }));
        assert_eq!(left(32, 0xff), Some(Left::Throttled { levels: None }));
    }

    #[test]
    fn the_sender_of_a_stop_signal_is_read() {
        let mut bytes = head(12, 0, 4711, 0);
        bytes.extend(thread(10, 120, "sh"));
        let sender = Seen { tid: 10, comm: "sh".into(), class: Class::Ordinary };
        let what = decode(&bytes).expect("a record").what;
        assert_eq!(what, KernelEvent::StopSignal { process: 4711, sender });
    }

    #[test]
    fn a_wake_up_by_an_interrupt_has_no_waker() {
        let mut bytes = head(2, 0, 4711, 0);
        bytes.extend(thread(NONE, 0, ""));
        let what = decode(&bytes).expect("a record").what;
        assert_eq!(what, KernelEvent::Waking { tid: 4711, waker: None, wake: Wake::ToRun });
    }

    #[test]
    fn short_records_are_read_and_unknown_ones_refused() {
        let what = |bytes: &[u8]| decode(bytes).map(|record| record.what);
        assert_eq!(what(&head(7, 1, 3, 0)), Some(KernelEvent::SoftIrq { vector: 3, enter: true }));
        assert_eq!(
            what(&head(9, 0, 0, 8)),
            Some(KernelEvent::TimerDue { due: Instant::from_nanos(8), of: None })
        );
        assert_eq!(
            what(&head(9, 0, 12, 8)),
            Some(KernelEvent::TimerDue { due: Instant::from_nanos(8), of: Some(12) })
        );
        let took = Duration::from_nanos(5_000);
        let in_call = |syscall, until_now| {
            Some(KernelEvent::InSystemCall { tid: 12, syscall, took, until_now })
        };
        assert_eq!(what(&head(11, 1, 12, 5_000 << 16 | 230)), in_call(Some(230), true));
        assert_eq!(what(&head(11, 0, 12, 5_000 << 16 | 0xffff)), in_call(None, false));
        let throttled = |levels| Some(KernelEvent::WokenThrottled { tid: 12, levels });
        assert_eq!(what(&head(13, 0, 12, 1)), throttled(Some(1)));
        assert_eq!(what(&head(13, 0, 12, 0xff)), throttled(None));
        assert_eq!(what(&head(7, 1, 300, 0)), None);
        assert_eq!(what(&head(99, 0, 0, 0)), None);
        assert_eq!(what(&[1; 5]), None);
    }
}
