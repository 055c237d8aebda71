//! The thread that sends or receives during a measurement.

use std::thread::{Builder, scope};

use punctual_linux::measure::MeasureError;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::Duration;

use super::plan;

/// The reason why a burst gave no samples, as a sentence.
pub(super) type Reason = String;

/// The pause after an attempt without a sample: for room on the link, or for the cause of a delay
/// to pass.
const PAUSE: Duration = Duration::from_millis(1);

/// Takes samples for `length` on such a thread, of each of `shapes` in turn, so that a disturbance
/// affects all alike. Returns a list for each shape.
pub(super) fn in_turn<S: Copy + Sync>(
    shapes: &[S],
    class: Class,
    cpu: usize,
    length: Duration,
    mut sample: impl FnMut(S) -> Result<Option<Duration>, Reason> + Send,
) -> Result<Vec<Vec<Duration>>, Reason> {
    on_seat(class, cpu, || {
        let mut samples = vec![Vec::new(); shapes.len()];
        let until = clock::now().saturating_add(length);
        while clock::now() < until {
            for (samples, shape) in samples.iter_mut().zip(shapes) {
                match sample(*shape)? {
                    Some(took) => samples.push(took),
                    None => clock::sleep(PAUSE),
                }
            }
        }
        Ok(samples)
    })
}

/// Returns the error for packets that are too large for their destination.
pub(super) fn too_large(name: &str, largest: u32) -> Reason {
    let largest = plan::size(largest.into());
    format!("packets of {name} carry at most {largest} beside our header")
}

/// Runs `body` on a thread of its own, of this class and on this CPU.
pub(super) fn on_seat<T: Send>(
    class: Class,
    cpu: usize,
    body: impl FnOnce() -> Result<T, Reason> + Send,
) -> Result<T, Reason> {
    scope(|scope| {
        let thread = Builder::new().name("punctual-carry".to_owned()).spawn_scoped(scope, || {
            // The class comes first: an ordinary thread would have to wait for its new CPU.
            sched::set(thread::current(), class).map_err(|why| why.to_string())?;
            thread::pin_to(cpu).map_err(|why| why.to_string())?;
            body()
        });
        let thread = thread.map_err(|why| MeasureError::NoThread(why).to_string())?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
