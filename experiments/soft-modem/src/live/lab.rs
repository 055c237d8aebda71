//! One call in one context, with competitors and callback.

use super::Context;
use super::context::Place;
use punctual_bpf::Object;
use punctual_linux::{clock, host};
use punctual_model::Duration;
use punctual_modem::demo::live::Competitors;
use punctual_modem::fsk::Recording;

use super::plan::Plan;
use super::record::Served;
use super::report::{ContextReport, DriverReport};
use super::wakeups::Wakeups;
use super::{Args, Error, Run, kernel, threads, wakeups};

/// The time from the go-ahead to sample 0.
const LEAD_IN: Duration = Duration::from_millis(20);

/// The parts of a study.
pub(super) struct Lab<'a> {
    pub(super) args: &'a Args,
    pub(super) cpu: usize,
    pub(super) recording: Recording,
    pub(super) object: Result<Object, Error>,
    pub(super) native: Plan,
    pub(super) in_kernel: Option<Plan>,
}

impl Lab<'_> {
    /// Runs one call in one context, with the callback beside it.
    pub(super) fn measure(&self, context: Context) -> Result<(ContextReport, Option<Run>), Error> {
        let stolen_before = host::stolen();
        let (seen, run) = match context {
            Context::None => (self.control_case()?, None),
            Context::Interrupt | Context::Softirq => {
                let (seen, served) = self.in_kernel(context)?;
                (seen, self.in_kernel.clone().map(|plan| Run { context, plan, served }))
            }
            _ => {
                let place = context.place().expect("what is not in the kernel is a thread");
                let (seen, served) = self.in_thread(place)?;
                (seen, Some(Run { context, plan: self.native.clone(), served }))
            }
        };
        let stolen = host::stolen().zip(stolen_before).map(|(after, before)| after - before);
        let driver = run.as_ref().map(DriverReport::of);
        let row = ContextReport {
            stolen_ms: stolen.map(|stolen| stolen.as_nanos() / 1_000_000),
            ..ContextReport::of(context, driver, &seen)
        };
        Ok((row, run))
    }

    fn control_case(&self) -> Result<wakeups::Seen, Error> {
        let length = self.native.length();
        let _competitors = self.competitors()?;
        let callback = Wakeups::start(self.cpu, length)?;
        clock::sleep(length);
        Ok(callback.stop())
    }

    fn in_kernel(&self, context: Context) -> Result<(wakeups::Seen, Served), Error> {
        let object = match &self.object {
            Ok(object) => object,
            Err(Error::Load(why)) => return Err(Error::Load(why.clone())),
            // Loading again gives the same error.
            Err(_) => &kernel::load(self.args.lines, &self.recording)?,
        };
        let Some(plan) = &self.in_kernel else {
            unreachable!("what was loaded was measured");
        };
        let _competitors = self.competitors()?;
        let callback = Wakeups::start(self.cpu, plan.length())?;
        let served = kernel::serve(object, context, self.cpu, self.args.lines, plan)?;
        Ok((callback.stop(), served))
    }

    fn in_thread(&self, place: Place) -> Result<(wakeups::Seen, Served), Error> {
        let plan = &self.native;
        // Before the competitors: beside them an ordinary thread would take seconds to start.
        let ready = threads::core(place, self.cpu, self.args.lines, plan, &self.recording)?;
        let _competitors = self.competitors()?;
        let callback = Wakeups::start(ready.cpu.unwrap_or(self.cpu), plan.length())?;
        let served = ready.run(clock::now() + LEAD_IN);
        Ok((callback.stop(), served))
    }

    fn competitors(&self) -> Result<Competitors, Error> {
        Ok(Competitors::start(usize::from(self.args.competitors))?)
    }
}
