//! Runs stress-ng (Debian's package) beside a measurement, until dropped.

use std::process::{Child, Command, Stdio};

use punctual_linux::process;
use punctual_linux::{clock, thread};
use punctual_model::Duration;
use rustix::process::Signal;

/// It ends with its parent, or after this long by itself.
const LONGEST: &str = "60s";

/// Time for the workers to begin.
const HEAD_START: Duration = Duration::from_millis(500);

/// A running stress-ng, or none if no worker is requested.
pub(crate) struct Stress {
    child: Option<Child>,
    /// The folder in which its workers write.
    _folder: tempfile::TempDir,
}

impl Stress {
    pub(crate) fn start(stressor: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        if stressor.is_empty() {
            return Ok(Self { child: None, _folder: folder });
        }
        let workers = (2 * thread::affinity().len()).to_string();
        let mut command = Command::new("stress-ng");
        command.args(stressor).arg(workers).args(["--timeout", LONGEST, "--hdd-bytes", "64m"]);
        command.arg("--temp-path").arg(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        process::die_with_parent(&mut command);
        let child = command.spawn().map_err(|error| {
            format!("stress-ng does not start ({error}); install the package stress-ng")
        })?;
        clock::sleep(HEAD_START);
        Ok(Self { child: Some(child), _folder: folder })
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It ends its workers itself on this signal.
            let _ = process::send(child, Signal::INT);
            let _ = child.wait();
        }
    }
}
