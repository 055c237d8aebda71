//! polkit's decision, asked as rtkit asks it.

use std::collections::HashMap;

use zbus::Connection;
use zbus::fdo::Error;
use zbus::zvariant::Value;

use crate::target::Process;

/// The action of a real-time class.
pub(crate) const REAL_TIME: &str = "org.freedesktop.RealtimeKit1.acquire-real-time";

/// The action of a nice value below zero.
pub(crate) const HIGH_PRIORITY: &str = "org.freedesktop.RealtimeKit1.acquire-high-priority";

const NAME: &str = "org.freedesktop.PolicyKit1";

/// Whether it is allowed, whether a password would allow it, and details.
type Decision = (bool, bool, HashMap<String, String>);

/// Returns an error unless polkit allows `process` this action. Where there is no polkit, `without`
/// decides.
///
/// # Errors
/// `AccessDenied` if polkit refuses, does not answer or is not there.
pub(crate) async fn check(
    bus: &Connection,
    process: &Process,
    action: &str,
    without: bool,
) -> Result<(), Error> {
    let (pid, uid) = (process.holder.pid, process.uid);
    let subject: HashMap<&str, Value<'_>> = HashMap::from([
        ("pid", Value::from(pid.unsigned_abs())),
        ("start-time", Value::from(process.holder.start)),
        // It is signed in polkit's own description (polkit_unix_process_new_for_owner).
        ("uid", Value::from(uid.cast_signed())),
    ]);
    // No flags: nobody is asked for a password. No id: nothing to cancel.
    let arguments = (("unix-process", subject), action, HashMap::<&str, &str>::new(), 0_u32, "");
    let answer = bus
        .call_method(
            Some(NAME),
            "/org/freedesktop/PolicyKit1/Authority",
            Some("org.freedesktop.PolicyKit1.Authority"),
            "CheckAuthorization",
            &arguments,
        )
        .await;
    let why = match answer.map_err(Error::from) {
        Ok(message) => match message.body().deserialize::<Decision>() {
            Ok((true, _, _)) => return Ok(()),
            Ok(_) => format!("polkit does not allow {action} to process {pid} of user {uid}"),
            Err(why) => format!("polkit's answer cannot be read: {why}"),
        },
        Err(Error::ServiceUnknown(_) | Error::NameHasNoOwner(_)) if without => return Ok(()),
        Err(Error::ServiceUnknown(_) | Error::NameHasNoOwner(_)) => {
            "there is no polkit on this bus to allow it: install polkitd, or set without_polkit = \
             \"allow\" in /etc/punctual/rtkit.toml"
                .into()
        }
        Err(why) => format!("polkit does not answer: {why}"),
    };
    Err(Error::AccessDenied(why))
}
