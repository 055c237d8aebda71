//! The tasks and upcalls of a contract in the one form that the runtime runs: as upcalls.

use punctual_analysis::Grant;
use punctual_model::contract::Policy;
use punctual_model::{Contract, Service, Task, Upcall, UpcallSpec};
use punctual_trace::{Promise, SubjectKind};

/// Between two yield points of a task that can be preempted anywhere.
const GRAIN: Service = Service::from_micros(100);

/// Something to be run with synthetic work.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) upcall: Upcall,
    pub(super) kind: SubjectKind,
    pub(super) promise: Promise,
    /// Where admission placed it, from 0.
    pub(super) cpu: u16,
}

/// What cannot be run, by its name, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undriven {
    pub(super) name: String,
    pub(super) why: String,
}

/// Everything of `contract`, whose streams were expanded, that has jobs; `grant` says where it runs.
pub(super) fn declared(contract: &Contract, grant: &Grant) -> (Vec<Declared>, Vec<Undriven>) {
    let (mut all, mut not) = (Vec::new(), Vec::new());
    let served = served(contract);
    for (task, granted) in contract.tasks.iter().zip(&grant.tasks) {
        let name = task.name().to_owned();
        let own = contract.upcalls.iter().find(|upcall| upcall.name() == name);
        let upcall = match (&served, own) {
            (Err(why), _) => Err((*why).to_owned()),
            (Ok(()), Some(upcall)) => Ok(upcall.clone()),
            (Ok(()), None) => as_upcall(task),
        };
        match upcall {
            Err(why) => not.push(Undriven { name, why }),
            Ok(upcall) => all.push(Declared {
                upcall,
                kind: if own.is_some() { SubjectKind::Upcall } else { SubjectKind::Task },
                promise: Promise {
                    period: Some(task.min_inter_arrival()),
                    relative_deadline: Some(task.relative_deadline()),
                    wcet: Some(task.wcet()),
                },
                cpu: granted.cpu,
            }),
        }
    }
    (all, not)
}

/// Whether the runtime, where the shorter period goes first, serves tasks in the contract's order.
fn served(contract: &Contract) -> Result<(), &'static str> {
    match contract.policy {
        Policy::Rmdp | Policy::Rm => Ok(()),
        Policy::Fp if contract.tasks.is_sorted_by_key(Task::min_inter_arrival) => Ok(()),
        Policy::Fp => {
            Err("the runtime puts shorter periods first, and fp puts a longer one first here")
        }
        Policy::Edf => Err("the runtime puts shorter periods first; edf is only simulated"),
        Policy::EdfVd => Err("the runtime puts shorter periods first; edf-vd is only simulated"),
        Policy::Fifo => Err("the runtime puts shorter periods first; fifo is only simulated"),
    }
}

/// Between two yield points it does what the task does in its longest stretch without one.
fn as_upcall(task: &Task) -> Result<Upcall, String> {
    let stretch = if task.quantum().is_zero() { GRAIN } else { task.quantum() };
    let wcet = task.wcet().as_nanos();
    let batch = u32::try_from(wcet.div_ceil(stretch.as_nanos())).unwrap_or(u32::MAX);
    let upcall = Upcall::new(UpcallSpec {
        name: task.name().to_owned(),
        period: task.min_inter_arrival(),
        batch,
        quantum: 1,
        time_per_pdu: Service::from_nanos((wcet / u64::from(batch)).max(1)),
    });
    upcall.map_err(|why| format!("it cannot be run as an upcall: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_analysis::{admit, mapping};
    use punctual_model::{Duration, HostProfile};

    fn of(text: &str) -> (Vec<Declared>, Vec<Undriven>) {
        let contract = Contract::parse("test", text.as_bytes()).expect("valid");
        let host = HostProfile::ideal(4);
        let grant = admit(&contract, &host).expect("admitted");
        let (contract, _) = mapping::expand(&contract, &host).expect("mapped");
        declared(&contract, &grant)
    }

    #[test]
    fn a_task_gives_way_as_often_as_it_says_and_needs_no_more_than_it_says() {
        let (all, not) = of(include_str!("../../../../examples/studio.toml"));
        assert_eq!(not, []);
        let of_each = |one: &Declared| {
            let upcall = &one.upcall;
            (one.kind, upcall.quantum_service(), upcall.batch_service(), upcall.period())
        };
        let (us, ms) = (Service::from_micros, Duration::from_millis);
        let expected = [
            (SubjectKind::Task, us(100), us(1_000), ms(10)),
            (SubjectKind::Task, us(500), us(11_000), ms(40)),
            (SubjectKind::Upcall, us(300), us(1_200), ms(20)),
        ];
        assert_eq!(all.iter().map(of_each).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_the_runtime_would_serve_in_another_order_is_not_run() {
        let two = |policy: &str, first: u32, second: u32| {
            let task = |name, period| {
                format!(
                    "[[task]]\nname = \"{name}\"\nperiod = \"{period}ms\"\nwcet = \"1ms\"\n\
                     relative_deadline = \"8ms\"\n"
                )
            };
            let text = format!("[system]\npolicy = \"{policy}\"\n");
            of(&(text + &task("a", first) + &task("b", second)))
        };
        for (policy, first, second, run) in
            [("rm", 20, 10, 2), ("fp", 10, 20, 2), ("fp", 20, 10, 0), ("edf", 10, 20, 0)]
        {
            let (all, not) = two(policy, first, second);
            assert_eq!((all.len(), not.len()), (run, 2 - run), "{policy} {first} {second}");
            for one in all {
                assert_eq!(one.promise.relative_deadline, Some(Duration::from_millis(8)));
            }
        }
    }

    #[test]
    fn a_stream_is_run_as_the_upcall_that_it_became() {
        let (all, not) = of(include_str!("../../../../examples/stream.toml"));
        assert_eq!(not, []);
        let names: Vec<_> = all.iter().map(|one| (one.upcall.name(), one.kind)).collect();
        assert!(names.contains(&("camera", SubjectKind::Upcall)), "{names:?}");
        assert_eq!(names.len(), 4);
    }
}
