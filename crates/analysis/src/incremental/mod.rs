//! Admission one task at a time on one CPU, at a small part of the cost of a full analysis.
//!
//! [`Admission`] holds tasks that are in time. [`Admission::admit`] adds one if all remain so, and
//! otherwise changes nothing; [`Admission::remove`] takes one out. [`Admission::reserve`] and
//! [`Admission::unreserve`] do the same with a reservation above them. The verdict is that of the
//! full test for the whole set, if that test decides: [`crate::fixed_priority::all_in_time`] for
//! fixed priorities, [`crate::edf::demand::processor_demand`] for `edf`. For `edf-vd` and `fifo`
//! the full test is run. If the full test is undecided ([`Steps`], 64 bits), this one may still
//! decide, by the same theorems.
//!
//! # Fixed priorities: certificates
//! With `f_i(t) = B_i + C_i + Σ_{j ∈ hp(i)} ⌈(t + J_j)/T_j⌉·C_j + Σ_r I_r(t)`, any instant
//! `0 < t ≤ min(D_i, T_i) − J_i` with `f_i(t) ≤ t` proves task i in time: `f_i` never falls, so its
//! least fixed point, the end of the busy window, is not after t; by then no second job is released
//! and the first is in time. A *certificate* is such a t with its spare `t − f_i(t)`.
//!
//! - A more urgent task k adds `⌈(t + J_k)/T_k⌉·C_k` to `f_i(t)`, and a less urgent one may raise
//!   `B_i`. If the addition is within the spare, it is subtracted from the spare, and the proof
//!   still holds.
//! - If it is not, the exact test of `fixed_priority` is run for that task alone, from its old
//!   window (another task can only lengthen it), and a new certificate is searched for. Only that
//!   test refuses; a failed certificate alone never does. Where many certificates fail at once,
//!   neighbours are first tried at an instant that they share (`sweep`).
//! - Another reservation r adds `I_r(t)` to every `f_i(t)`, and is subtracted from every spare in
//!   the same way.
//! - A removed task or reservation gives back exactly what it took. So does one that is denied:
//!   the certificates found until then stay.
//!
//! If several jobs share a busy window, the certificate has an instant for each (up to a limit):
//! `t_q ≤ D_i − J_i + q·T_i` with `f_i(t_q) + q·C_i ≤ t_q` for job q, the last one also with
//! `t_q ≤ (q + 1)·T_i − J_i`, by which the window is closed. With a last segment `l_i` an instant
//! is the start of that segment, so both sides are less by `l_i`, and an end of the window is
//! added. There `⌊(s + J)/T⌋ + 1` releases count if `B_i = 0`; in whole nanoseconds that is
//! `⌈(s + 1 + J)/T⌉`, so it is the same inequality for `s + 1` with a blocking of 1, and one form
//! serves both cases. Under reservations last segments do not help, so the first reservation
//! invalidates all certificates that use them.
//!
//! # EDF: a line above each task's demand
//! With `d_i = D_i − J_i`, task i's demand is never above `C_i + (t − d_i)·U_i` from `d_i` on, and
//! is zero before. The sum h*(t) has steps at the `d_i` only, and between them it grows by less
//! than t as long as the utilisation is below one. So `h*(d_j) + B(d_j) ≤ d_j` for every j is
//! enough (Albers & Slomka, ECRTS 2004, with one exact job per task). The sums of all lines are
//! kept, so one pass from the last d_j back finds the intervals `[d_j, d_{j+1})` where this does
//! not hold, and in each the instants with `h*(t) + B > t`. Only those are examined exactly, by
//! QPA.
//!
//! Tasks with neighbouring d are kept in blocks with their sums. If all tasks of a block started at
//! its first d, each with `C_i + (t − d)·U_i`, the sum would be no lower. So if that sum is low
//! enough at that d, one line proves the whole block. Otherwise its tasks are examined one by one.
//!
//! # Costs
//! With n tasks, `admit`, `reserve` and their reverse take O(n) elementary operations, at most one
//! division or product per task, where the full fixed-priority test takes O(n²). (Under `edf` the
//! full test takes O(n) for each instant that it examines, often a few; while lines prove enough,
//! the cost here is one product per block. Under `edf-vd` and `fifo` the full test is simply run.)
//! A failed certificate costs O(n) for each round of the exact test and for each of a few instants
//! tried for a better one; it pays for itself if many changes fit within a spare. In the worst case
//! (every certificate fails) the cost is that of the full test. Memory is linear in the tasks. Sums
//! are whole numbers, subtracted as they were added, so nothing drifts.
//!
//! # Units and assumptions
//! As in [`crate::fixed_priority::floating`], [`crate::fixed_priority::last_segment`] and
//! [`crate::edf::demand`]: nanoseconds, continuous time, two context switches per job. Reservations
//! are interference throughout; whether they fit together is not examined here.

mod bands;
mod blocks;
mod certificate;
mod denial;
mod earliest_deadline;
mod fixed_priority;
mod full_test;
mod line;
mod sweep;
#[cfg(test)]
mod tests;
mod window;

use alloc::vec::Vec;

use punctual_model::{Duration, Policy, Reservation, Service, Task};

pub use self::bands::Bands;
pub use self::denial::Denial;
use self::earliest_deadline::EarliestDeadline;

use self::fixed_priority::FixedPriority;
use self::full_test::FullTest;
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, TaskLoad};
use crate::policies;
use crate::reservation::ReservedLoad;
use crate::schedulability::{Engine, Order};
use crate::steps::Steps;

/// The name of an admitted task. The same [`Admission`] never gives it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

/// The tasks admitted to one CPU.
///
/// ```
/// use punctual_analysis::Steps;
/// use punctual_analysis::incremental::Admission;
/// use punctual_model::{Duration, Policy, Service, Task, TaskSpec};
///
/// let task = |period, wcet| {
///     let (period, wcet) = (Duration::from_millis(period), Service::from_millis(wcet));
///     Task::new(TaskSpec::periodic("task", period, wcet)).expect("valid")
/// };
/// let mut cpu = Admission::new(Policy::Rm, [], Service::ZERO);
/// let video = cpu.admit(&task(40, 20), &mut Steps::default()).expect("alone");
/// let audio = cpu.admit(&task(10, 4), &mut Steps::default()).expect("20 + 4 · 4 ≤ 40");
/// let refused = cpu.admit(&task(20, 5), &mut Steps::default()).expect_err("too much");
/// assert_eq!(
///     refused.to_string(),
///     "a task admitted before has no finite response time: it and what is more urgent need more \
///      than the whole CPU"
/// );
/// assert!(cpu.remove(video));
/// cpu.admit(&task(20, 5), &mut Steps::default()).expect("there is room again");
/// assert_eq!(cpu.ids().next(), Some(audio));
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    policy: Policy,
    context_switch: Service,
    tasks: Tasks,
    next: u64,
}

#[derive(Clone, Debug)]
enum Tasks {
    FixedPriority(FixedPriority),
    EarliestDeadline(EarliestDeadline),
    FullTest(FullTest),
}

impl Admission {
    /// Starts without tasks, under `reservations` that run above them all. Each job is charged two
    /// `context_switch`es.
    pub fn new(
        policy: Policy,
        reservations: impl IntoIterator<Item = Reservation>,
        context_switch: Service,
    ) -> Self {
        let load = CpuLoad::new([], reservations, context_switch);
        let tasks = match policies::of(policy).engine() {
            Engine::FixedPriority => Tasks::FixedPriority(FixedPriority::new(load)),
            Engine::EarliestDeadline => Tasks::EarliestDeadline(EarliestDeadline::new(load)),
            Engine::FullTest => Tasks::FullTest(FullTest::new(policy, load)),
        };
        Self { policy, context_switch, tasks, next: 0 }
    }

    /// Runs the tasks on threads that wake up late: see [`CpuLoad::with_wake_up`]. No task may be
    /// admitted yet.
    pub fn with_wake_up(mut self, wake_up: Service) -> Self {
        debug_assert!(self.load().tasks.is_empty(), "what is proven was proven without");
        self.load_mut().wake_up = wake_up.as_nanos();
        self
    }

    /// Admits `task` at the priority its policy gives it, if every task remains in time: below all
    /// tasks of the same period under `rm` and `rmdp`, below all tasks under `fp`.
    ///
    /// A request that is not decided within `steps` is denied, and a denial changes nothing.
    pub fn admit(&mut self, task: &Task, steps: &mut Steps) -> Result<TaskId, Denial> {
        self.admit_load(TaskLoad::new(task, self.context_switch), None, steps)
    }

    /// Admits like [`Self::admit`], but under `fp` and `fifo` directly above `below`, which must be
    /// admitted. Under a policy that orders the tasks itself, `below` has no effect.
    pub fn admit_above(
        &mut self,
        below: TaskId,
        task: &Task,
        steps: &mut Steps,
    ) -> Result<TaskId, Denial> {
        self.admit_load(TaskLoad::new(task, self.context_switch), Some(below), steps)
    }

    /// Admits a task that already includes its switches; under `fp` directly above `below`.
    pub(crate) fn admit_load(
        &mut self,
        task: TaskLoad,
        below: Option<TaskId>,
        steps: &mut Steps,
    ) -> Result<TaskId, Denial> {
        let position = |below| self.ids().position(|id| id == below).ok_or(Denial::NoSuchTask);
        let above = below.map(position).transpose()?;
        let id = TaskId(self.next);
        let at = self.place_of(above, &task);
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.admit(at, id, task, steps)?,
            Tasks::EarliestDeadline(tasks) => tasks.admit(id, task, steps)?,
            Tasks::FullTest(tasks) => tasks.admit(above, id, task, steps)?,
        }
        self.next += 1;
        Ok(id)
    }

    /// Inserts a task like [`Self::admit_load`] without a look at it: all tasks are known to be in
    /// time with it.
    pub(crate) fn insert_load(&mut self, task: TaskLoad, below: Option<TaskId>) -> TaskId {
        let above = below.and_then(|below| self.ids().position(|id| id == below));
        let id = TaskId(self.next);
        let at = self.place_of(above, &task);
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.insert(at, id, task),
            Tasks::EarliestDeadline(tasks) => tasks.insert(id, task),
            Tasks::FullTest(tasks) => _ = tasks.insert(above, id, task),
        }
        self.next += 1;
        id
    }

    /// Returns the position of a new task under fixed priorities, if it is to be directly above the
    /// one at `above`.
    fn place_of(&self, above: Option<usize>, task: &TaskLoad) -> usize {
        let tasks = &self.load().tasks;
        match (policies::of(self.policy).order(), above) {
            (Order::File, Some(at)) => at,
            (Order::File, None) => tasks.len(),
            _ => tasks.partition_point(|other| other.period <= task.period),
        }
    }

    /// Takes a task out. Returns false if it is not there. The others remain in time.
    pub fn remove(&mut self, id: TaskId) -> bool {
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.remove(id),
            Tasks::EarliestDeadline(tasks) => tasks.remove(id),
            Tasks::FullTest(tasks) => tasks.remove(id),
        }
    }

    /// Puts `reservation` above all tasks if every one of them remains in time, with two
    /// `context_switch`es per period charged to it.
    ///
    /// A request that is not decided within `steps` is denied, and a denial changes nothing.
    /// Whether the reservations fit together is not examined here.
    ///
    /// ```
    /// use punctual_analysis::Steps;
    /// use punctual_analysis::incremental::Admission;
    /// use punctual_model::{Duration, Policy, Service, Task, TaskSpec};
    ///
    /// let (period, wcet) = (Duration::from_millis(20), Service::from_millis(8));
    /// let video = Task::new(TaskSpec::periodic("video", period, wcet)).expect("valid");
    /// let mut cpu = Admission::new(Policy::Rm, [], Service::ZERO);
    /// cpu.admit(&video, &mut Steps::default()).expect("alone");
    ///
    /// let modem = "2ms/8ms".parse().expect("valid");
    /// cpu.reserve(modem, &mut Steps::default()).expect("8 ms, 20 ms / 4 and 3 ms are 16 ms");
    /// cpu.reserve(modem, &mut Steps::default()).expect_err("one more takes 8 ms of the other 4");
    /// assert!(cpu.unreserve(modem));
    /// ```
    pub fn reserve(&mut self, reservation: Reservation, steps: &mut Steps) -> Result<(), Denial> {
        self.put_above(ReservedLoad::new(reservation, self.context_switch), steps)
    }

    /// Takes out a reservation with this budget and period. Returns false if there is none. The
    /// tasks remain in time.
    pub fn unreserve(&mut self, reservation: Reservation) -> bool {
        self.take_from_above(&ReservedLoad::new(reservation, self.context_switch))
    }

    /// Puts `load` above all tasks, as [`Self::reserve`] does with a reservation.
    pub(crate) fn put_above(
        &mut self,
        load: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.reserve(load, steps),
            Tasks::EarliestDeadline(tasks) => tasks.reserve(load, steps),
            Tasks::FullTest(tasks) => tasks.reserve(load, steps),
        }
    }

    /// Takes out a load that [`Self::put_above`] put there. Returns false if there is none like it.
    /// The tasks remain in time.
    pub(crate) fn take_from_above(&mut self, load: &ReservedLoad) -> bool {
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.unreserve(load),
            Tasks::EarliestDeadline(tasks) => tasks.unreserve(load),
            Tasks::FullTest(tasks) => tasks.unreserve(load),
        }
    }

    /// Restores a load above all tasks that was taken out while the tasks stayed as they are. They
    /// were in time beneath it, so nothing is examined.
    pub(crate) fn put_back_above(&mut self, load: ReservedLoad) {
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.put_back(load),
            Tasks::EarliestDeadline(tasks) => tasks.put_back(load),
            Tasks::FullTest(tasks) => tasks.put_back(load),
        }
    }

    /// Admits all of `tasks`, which are in the order of the policy, by one full test, and returns
    /// their names. Returns `None` and admits nothing if not every one is certainly in time. No
    /// task may be admitted yet.
    pub(crate) fn fill(&mut self, tasks: Vec<TaskLoad>, steps: &mut Steps) -> Option<Vec<TaskId>> {
        debug_assert!(self.load().tasks.is_empty(), "it is filled once");
        let first = self.next;
        let ids: Vec<TaskId> = (first..).map(TaskId).take(tasks.len()).collect();
        self.load_mut().tasks = tasks;
        if !policies::of(self.policy).fits(self.load(), steps) {
            self.load_mut().tasks.clear();
            return None;
        }
        self.next += ids.len() as u64;
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.name_all(&ids),
            Tasks::EarliestDeadline(tasks) => tasks.name_all(&ids),
            Tasks::FullTest(tasks) => tasks.name_all(&ids),
        }
        Some(ids)
    }

    /// Returns the admitted tasks, the most urgent first; under `fifo` in the order of admission,
    /// under `edf` in an arbitrary order that changes when one is removed.
    pub fn ids(&self) -> impl Iterator<Item = TaskId> + '_ {
        let at = move |at| match &self.tasks {
            Tasks::FixedPriority(tasks) => tasks.id(at),
            Tasks::EarliestDeadline(tasks) => tasks.id(at),
            Tasks::FullTest(tasks) => tasks.id(at),
        };
        (0..self.load().tasks.len()).map(at)
    }

    /// Returns the load of the CPU, in the order of [`Self::ids`], for any other test.
    pub fn load(&self) -> &CpuLoad {
        match &self.tasks {
            Tasks::FixedPriority(tasks) => tasks.load(),
            Tasks::EarliestDeadline(tasks) => tasks.load(),
            Tasks::FullTest(tasks) => tasks.load(),
        }
    }

    fn load_mut(&mut self) -> &mut CpuLoad {
        match &mut self.tasks {
            Tasks::FixedPriority(tasks) => tasks.load_mut(),
            Tasks::EarliestDeadline(tasks) => tasks.load_mut(),
            Tasks::FullTest(tasks) => tasks.load_mut(),
        }
    }

    /// Returns the response time of every admitted task, in the order of [`Self::ids`], by a full
    /// analysis.
    ///
    /// A bound is not above the relative deadline. If `steps` run out before a better one is found,
    /// it is the relative deadline, which admission has proven.
    pub fn response_time_bounds(&self, steps: &mut Steps) -> Vec<(TaskId, Duration)> {
        let bounds =
            |times: Vec<ResponseTime>| times.into_iter().map(ResponseTime::bound).collect();
        let bounds: Vec<Option<Duration>> = match &self.tasks {
            Tasks::FixedPriority(tasks) => bounds(tasks.response_times(steps)),
            Tasks::EarliestDeadline(tasks) => bounds(tasks.response_times(steps)),
            Tasks::FullTest(tasks) => tasks.bounds(steps),
        };
        let deadlines = self.load().tasks.iter().map(|task| Duration::from_nanos(task.deadline));
        let bound = |(bound, deadline): (Option<Duration>, Duration)| {
            bound.map_or(deadline, |bound| bound.min(deadline))
        };
        self.ids().zip(bounds.into_iter().zip(deadlines).map(bound)).collect()
    }
}
