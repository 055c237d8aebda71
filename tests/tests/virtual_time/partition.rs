//! CPUs that are set apart and given back. The test is alone in its program, because it measures
//! the bandwidth of the whole host, and short, because meanwhile no other process has that CPU.

use punctual_linux::cgroup::Hierarchy;
use punctual_linux::cgroup::partition::{Partition, PartitionError};
use punctual_linux::sched::{self, Class, Restore, SchedError};
use punctual_linux::{bandwidth, thread};

#[test]
fn a_pinned_thread_is_reserved_in_a_partition_and_the_account_is_right_afterwards() {
    let reservation = "1ms/10ms".parse().expect("valid");
    let class = Class::Deadline { reservation, reset_on_fork: true };
    if let Err(refused) = sched::try_out(class) {
        return println!("skipped: {refused}");
    }
    let Some(cpu) = thread::affinity().into_iter().rfind(|cpu| *cpu > 0) else {
        return println!("skipped: there is no CPU besides the first");
    };
    let home = || Hierarchy::v2().and_then(|v2| v2.group_of(std::process::id().cast_signed()));
    let before = home();
    let partition = match Partition::make(&[cpu]) {
        Ok(partition) => partition,
        Err(PartitionError::Group(why)) => return println!("skipped: {why}"),
        Err(other) => panic!("{other}"),
    };
    let body = move || {
        let mut partition = partition;
        let me = thread::current();
        let _restore = Restore::current().expect("our own");
        if let Err(refused) = partition.add(me.as_raw()) {
            println!("skipped: {refused}");
            return partition;
        }
        thread::pin_to(cpu).expect("the partition's");
        sched::set(me, class).expect("pinned, in a root domain of its own");
        assert_eq!(thread::affinity(), [cpu]);
        let refused = partition.remove();
        assert!(matches!(refused, Err(PartitionError::StillReserved { thread }) if thread == me));
        sched::set(me, Class::Other { nice: 0 }).expect("leaves by itself");
        partition
    };
    let mut partition = std::thread::spawn(body).join().expect("no panic");
    partition.remove().expect("in order, and checked");
    assert_eq!(home(), before, "in the group that it was in");
    // An unpinned thread may be reserved as before.
    match sched::try_out(class) {
        Ok(()) => {}
        Err(SchedError::NoBandwidth { .. }) => {
            println!("others hold all: {:?}", bandwidth::left())
        }
        Err(other) => panic!("{other}"),
    }
}
