//! `--awake`: the CPUs that the programs need do not halt while they run.

use punctual_linux::awake::Awake;
use punctual_linux::thread;

use crate::exit::Failure;

/// CPUs that are kept from halting; none if nobody asked for it.
pub(super) struct KeptAwake(Option<Awake>);

impl KeptAwake {
    /// All that this process may use, because it is not known yet which the programs are held on. Before
    /// anything is started, so that a refusal leaves nothing behind.
    pub(super) fn start(asked: bool) -> Result<Self, Failure> {
        let start = || Awake::start(&thread::affinity());
        asked.then(start).transpose().map(Self).map_err(|why| {
            Failure::cannot_here(format!(
                "the CPUs cannot be kept from halting: {why}; leave --awake out"
            ))
        })
    }

    /// The others may halt again.
    pub(super) fn keep_for(
        &mut self,
        on: impl IntoIterator<Item = Option<usize>>,
        has_channel: bool,
    ) {
        if let (Some(awake), Some(cpus)) = (&mut self.0, needed(on, has_channel)) {
            awake.keep_only(&cpus);
        }
    }

    /// A line for a person.
    pub(super) fn text(&self) -> Option<String> {
        let awake = self.0.as_ref()?;
        let cpus: Vec<String> = awake.cpus().iter().map(ToString::to_string).collect();
        let which = match cpus.as_slice() {
            [one] => format!("CPU {one} does"),
            more => format!("CPUs {} do", more.join(", ")),
        };
        let share = if awake.gives_way_to_all() {
            ""
        } else {
            "; ordinary threads of other sessions and control groups share with what keeps them from it"
        };
        Some(format!("{which} not halt meanwhile{share}"))
    }

    /// All may halt. Which did not.
    pub(super) fn end(self) -> Vec<usize> {
        self.0.map_or_else(Vec::new, |awake| awake.cpus())
    }
}

/// The CPUs that programs are on, which run on one CPU each; `None`: all. The threads that carry a channel
/// are the broker's, on whichever CPU the kernel puts them.
fn needed(on: impl IntoIterator<Item = Option<usize>>, has_channel: bool) -> Option<Vec<usize>> {
    if has_channel { None } else { on.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cpus_of_all_programs_are_needed_where_they_are_known() {
        assert_eq!(needed([Some(1)], false), Some(vec![1]));
        assert_eq!(needed([Some(1), Some(0)], false), Some(vec![1, 0]));
        assert_eq!(needed([Some(1), None], false), None);
        assert_eq!(needed([Some(1)], true), None);
    }

    #[test]
    fn nothing_is_kept_awake_unless_asked_for() {
        let mut none = KeptAwake::start(false).unwrap_or_else(|_| panic!("does nothing"));
        none.keep_for([Some(0)], false);
        assert_eq!((none.text(), none.end()), (None, Vec::new()));
    }
}
