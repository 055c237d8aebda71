//! A polkit that decides what a test tells it, and the tests of its decisions.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use zbus::zvariant::OwnedValue;
use zbus::{connection, interface};

use crate::host::{GENEROUS, Host, TRUSTING};

struct Authority {
    folder: PathBuf,
}

#[interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Authority {
    /// Allows the actions in the file `allowed`, to the process that is asked about.
    fn check_authorization(
        &self,
        subject: (String, HashMap<String, OwnedValue>),
        action: String,
        _details: HashMap<String, String>,
        flags: u32,
        _cancellation: String,
    ) -> (bool, bool, HashMap<String, String>) {
        let allowed = fs::read_to_string(self.folder.join("allowed")).unwrap_or_default();
        let (kind, details) = subject;
        let pid = details.get("pid").and_then(|pid| u32::try_from(pid).ok());
        let uid = details.get("uid").and_then(|uid| i32::try_from(uid).ok());
        let asked = format!("{action} {kind} pid {pid:?} uid {uid:?} flags {flags}");
        fs::write(self.folder.join("asked"), asked).expect("ours");
        (allowed.lines().any(|line| line == action), false, HashMap::new())
    }
}

/// Serves until it is killed.
pub(crate) fn serve(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let authority = Authority { folder: folder.to_owned() };
        let bus = connection::Builder::system()
            .and_then(|bus| {
                bus.serve_at("/org/freedesktop/PolicyKit1/Authority", authority)?
                    .name("org.freedesktop.PolicyKit1")
            })
            .expect("valid");
        let bus = bus.build().await.expect("the test's bus");
        fs::write(folder.join("polkit.ready"), "").expect("ours");
        bus.closed().await;
    });
}

#[test]
fn polkit_decides_on_each_action() {
    let Some(mut host) = Host::start(GENEROUS, TRUSTING) else { return };
    host.start_polkit();
    let mut caller = host.caller();
    let refused = caller.ask("realtime 10");
    let says = "org.freedesktop.DBus.Error.AccessDenied: polkit does not allow \
                org.freedesktop.RealtimeKit1.acquire-real-time to process";
    assert!(refused.starts_with(says), "{refused}");
    assert_eq!(caller.policy(), "SCHED_OTHER");
    assert!(caller.ask("nice -5").contains("acquire-high-priority"));
    let asked = fs::read_to_string(host.path().join("asked")).expect("asked");
    let (pid, uid) = (caller.pid(), crate::host::USER);
    let action = "org.freedesktop.RealtimeKit1.acquire-high-priority";
    let about = format!("{action} unix-process pid Some({pid}) uid Some({uid}) flags 0");
    assert_eq!(asked, about);

    let allowed = host.path().join("allowed");
    fs::write(allowed, "org.freedesktop.RealtimeKit1.acquire-real-time\n").expect("ours");
    assert_eq!(caller.ask("realtime 10"), "ok");
    assert_eq!(caller.policy(), "SCHED_FIFO");
    assert!(caller.ask("nice -5").contains("acquire-high-priority"));
}

#[test]
fn without_polkit_nobody_gets_anything_unless_the_configuration_says_so() {
    let Some(mut host) = Host::start(GENEROUS, "") else { return };
    let mut caller = host.caller();
    let refused = caller.ask("realtime 10");
    assert!(refused.starts_with("org.freedesktop.DBus.Error.AccessDenied: "), "{refused}");
    assert!(
        refused.contains("there is no polkit") && refused.contains("without_polkit"),
        "{refused}"
    );
    assert_eq!(caller.policy(), "SCHED_OTHER");
    host.kill_service();
    host.start_service(TRUSTING);
    assert_eq!(caller.ask("realtime 10"), "ok");
}
