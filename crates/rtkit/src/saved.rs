//! The grants on disk, so that they survive an end of this service.
//!
//! The file contains the secrets by which grants are resumed, so only its owner may read it. It
//! belongs into memory that ends with the boot, as the processes do.

use std::io::{self, Write as _};
use std::path::Path;

use punctual_client::SavedGrant;
use punctual_client::wire::Holder;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tracing::warn;

/// A process with its grants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedProcess {
    pub(crate) holder: Holder,
    pub(crate) threads: Vec<SavedThread>,
}

/// A thread with its grant.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedThread {
    /// The thread's start, in clock ticks since the boot.
    pub(crate) start: u64,
    pub(crate) grant: SavedGrant,
}

/// Reads what was saved: nothing if there is no file, or it cannot be understood.
pub(crate) fn read(file: &Path) -> Vec<SavedProcess> {
    let read = std::fs::read(file).map(|bytes| serde_json::from_slice(&bytes));
    match read {
        Ok(Ok(processes)) => processes,
        Ok(Err(why)) => {
            warn!(file = %file.display(), %why, "the saved grants cannot be understood");
            Vec::new()
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(why) => {
            warn!(file = %file.display(), %why, "the saved grants cannot be read");
            Vec::new()
        }
    }
}

/// Replaces the file at once, so that it is whole whenever this service ends.
pub(crate) fn write(file: &Path, processes: &[SavedProcess]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    // Only its owner may read it (tempfile's default, 0600).
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(&serde_json::to_vec(processes)?)?;
    new.persist(file).map(|_| ()).map_err(|why| why.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_saved_is_read_again_by_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("grants.json");
        assert!(read(&file).is_empty());
        let text = r#"[{"holder":{"pid":7,"start":9},"threads":[{"start":8,"grant":{"grant":3,
            "token":"000102030405060708090a0b0c0d0e0f",
            "want":{"priority":{"thread":7,"share_ppm":1000}}}}]}]"#;
        let processes: Vec<SavedProcess> = serde_json::from_str(text).expect("valid");
        write(&file, &processes).expect("ours");
        let mode = file.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = read(&file);
        assert_eq!(again[0].holder, Holder { pid: 7, start: 9 });
        assert_eq!(again[0].threads[0].grant, processes[0].threads[0].grant);
        std::fs::write(&file, "[{").expect("ours");
        assert!(read(&file).is_empty());
    }
}
