//! The cost of switching between tasks.

use punctual_model::Service;

/// Returns `work` with the two switches around it.
pub(crate) fn with_two_switches(work: Service, context_switch: Service) -> u64 {
    work.as_nanos().saturating_add(context_switch.as_nanos().saturating_mul(2))
}
