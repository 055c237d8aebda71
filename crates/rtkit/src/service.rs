//! The interface `org.freedesktop.RealtimeKit1`.

use std::sync::Arc;

use punctual_client::{ClientError, RequestError};
use tokio::sync::Notify;
use tracing::debug;
use zbus::message::Header;
use zbus::{Connection, fdo, interface};

use crate::config::Config;
use crate::keeper::{Denied, Keeper};
use crate::target::Process;
use crate::{polkit, target};

/// The name and the path under which programs find it.
pub(crate) const NAME: &str = "org.freedesktop.RealtimeKit1";
pub(crate) const PATH: &str = "/org/freedesktop/RealtimeKit1";

/// The highest priority that a program may name. The broker places a thread by its period, so any
/// number means the same.
const MAX_PRIORITY: i32 = 99;

/// Answers the calls of programs.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) keeper: Arc<Keeper>,
    /// Tells that `Exit` was called.
    pub(crate) ends: Arc<Notify>,
}

#[interface(name = "org.freedesktop.RealtimeKit1")]
impl Service {
    async fn make_thread_realtime(
        &self,
        thread: u64,
        priority: u32,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> fdo::Result<()> {
        self.realtime(bus, &header, None, thread, priority).await
    }

    #[zbus(name = "MakeThreadRealtimeWithPID")]
    async fn make_thread_realtime_with_pid(
        &self,
        process: u64,
        thread: u64,
        priority: u32,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> fdo::Result<()> {
        self.realtime(bus, &header, Some(process), thread, priority).await
    }

    async fn make_thread_high_priority(
        &self,
        thread: u64,
        priority: i32,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> fdo::Result<()> {
        self.high_priority(bus, &header, None, thread, priority).await
    }

    #[zbus(name = "MakeThreadHighPriorityWithPID")]
    async fn make_thread_high_priority_with_pid(
        &self,
        process: u64,
        thread: u64,
        priority: i32,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> fdo::Result<()> {
        self.high_priority(bus, &header, Some(process), thread, priority).await
    }

    /// Takes back the grants of all programs.
    async fn reset_known(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> fdo::Result<()> {
        target::check_administrator(bus, &header).await?;
        self.ask(Keeper::take_back).await
    }

    /// Refuses: threads that others made real-time are not this service's.
    fn reset_all(&self) -> fdo::Result<()> {
        Err(fdo::Error::NotSupported(
            "only what was granted here can be taken back: call ResetKnown".to_owned(),
        ))
    }

    /// Ends the service, as SIGTERM does: grants go on for the broker's `grace`.
    async fn exit(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] bus: &Connection,
    ) -> fdo::Result<()> {
        target::check_administrator(bus, &header).await?;
        self.ends.notify_one();
        Ok(())
    }

    /// Returns the limit on running time that a program sets for itself before it asks.
    #[zbus(property(emits_changed_signal = "const"), name = "RTTimeUSecMax")]
    fn rttime_usec_max(&self) -> i64 {
        i64::try_from(self.config.rttime.as_nanos() / 1_000).unwrap_or(i64::MAX)
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn max_realtime_priority(&self) -> i32 {
        MAX_PRIORITY
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn min_nice_level(&self) -> i32 {
        self.config.min_nice
    }
}

impl Service {
    async fn realtime(
        &self,
        bus: &Connection,
        header: &Header<'_>,
        process: Option<u64>,
        thread: u64,
        priority: u32,
    ) -> fdo::Result<()> {
        if !(1..=MAX_PRIORITY.unsigned_abs()).contains(&priority) {
            let why = format!("priority {priority} is not from 1 to {MAX_PRIORITY}");
            return Err(fdo::Error::InvalidArgs(why));
        }
        let process = self.allowed(bus, header, process, polkit::REAL_TIME).await?;
        self.ask(move |keeper| keeper.grant(process, thread)).await
    }

    async fn high_priority(
        &self,
        bus: &Connection,
        header: &Header<'_>,
        process: Option<u64>,
        thread: u64,
        nice: i32,
    ) -> fdo::Result<()> {
        let least = self.config.min_nice;
        if !(least..=19).contains(&nice) {
            let why = format!("nice value {nice} is not from {least} (MinNiceLevel) to 19");
            return Err(fdo::Error::InvalidArgs(why));
        }
        let process = self.allowed(bus, header, process, polkit::HIGH_PRIORITY).await?;
        self.ask(move |keeper| keeper.nice(process, thread, nice)).await
    }

    async fn allowed(
        &self,
        bus: &Connection,
        header: &Header<'_>,
        process: Option<u64>,
        action: &str,
    ) -> fdo::Result<Process> {
        let process = target::of(bus, header, process).await?;
        polkit::check(bus, &process, action, self.config.without_polkit).await?;
        Ok(process)
    }

    /// Lets the keeper ask the broker, on a thread that may wait for it.
    async fn ask(
        &self,
        what: impl FnOnce(&Keeper) -> Result<(), Denied> + Send + 'static,
    ) -> fdo::Result<()> {
        let keeper = Arc::clone(&self.keeper);
        let asked = tokio::task::spawn_blocking(move || what(&keeper)).await;
        let denied = match asked {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(denied)) => denied,
            Err(why) => return Err(fdo::Error::Failed(why.to_string())),
        };
        let why = denied.to_string();
        // The broker logs its refusals itself, with a limit for each person.
        debug!(why, "denied");
        Err(match denied {
            Denied::NotAllowed { .. } => fdo::Error::AccessDenied(why),
            Denied::NotYours { .. } => fdo::Error::InvalidArgs(why),
            Denied::Request(RequestError::Refused(_)) => fdo::Error::LimitsExceeded(why),
            Denied::Request(RequestError::Client(ClientError::Broker(_))) | Denied::Grant(_) => {
                fdo::Error::Failed(why)
            }
            Denied::Request(RequestError::Client(_)) => fdo::Error::NoServer(format!(
                "the Punctual broker is away (systemctl status punctual-broker), ask again later: {why}"
            )),
            Denied::LevelOrder => fdo::Error::NotSupported(why),
            Denied::Watch(_) => fdo::Error::LimitsExceeded(why),
        })
    }
}
