//! Kernels from the distribution's packages, unpacked once and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{cache, output_of};
use crate::problem::Problem;

/// The kernels that are tested: a branch of versions, with `-rt` for PREEMPT_RT.
pub(crate) const NAMES: [&str; 4] = ["6.1", "6.1-rt", "6.12", "6.12-rt"];

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// One of [`NAMES`].
    pub(crate) name: String,
    /// The output of `uname -r`.
    pub(crate) release: String,
    /// The unpacked package: `boot/` and `lib/modules/`.
    pub(crate) folder: PathBuf,
}

impl Kernel {
    /// Returns the newest kernel of a branch, and downloads its package the first time.
    ///
    /// # Errors
    /// Fails if the name is unknown, or the package is not available.
    pub(crate) fn find(name: &str) -> Result<Self, Problem> {
        if !NAMES.contains(&name) {
            return Err(Problem::Usage(format!(
                "no kernel is called {name:?}; there are {}",
                NAMES.join(", ")
            )));
        }
        let folder = cache().join("kernels").join(name);
        if !folder.exists() {
            download(name, &folder)?;
        }
        let modules = folder.join("lib/modules");
        let release = fs::read_dir(&modules)
            .and_then(|mut entries| {
                entries.next().unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()))
            })
            .map_err(Problem::file(&modules))?
            .file_name();
        Ok(Self { name: name.to_owned(), release: release.to_string_lossy().into_owned(), folder })
    }

    /// Returns the file that a boot loader would load.
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join("boot").join(format!("vmlinuz-{}", self.release))
    }
}

/// Downloads and unpacks the newest package of a branch; `folder` appears only once it is complete.
fn download(name: &str, folder: &Path) -> Result<(), Problem> {
    let names = output_of(Command::new("apt-cache").args(["pkgnames", "linux-image-"]))?;
    let newest = names.lines().filter_map(|package| Some((version(name, package)?, package))).max();
    let Some((_, package)) = newest else {
        return Err(Problem::Host(format!(
            "no package holds the kernel {name} for amd64: apt-get update, or another release of Debian"
        )));
    };
    let parent = folder.parent().expect("below the cache");
    fs::create_dir_all(parent).map_err(Problem::file(parent))?;
    let room = tempfile::tempdir_in(parent).map_err(Problem::file(parent))?;
    eprintln!("downloading {package}");
    output_of(Command::new("apt-get").args(["download", "-qq", package]).current_dir(room.path()))?;
    let unpacked = room.path().join("unpacked");
    output_of(
        Command::new("sh")
            .current_dir(room.path())
            .args(["-c", "dpkg-deb --extract ./*.deb unpacked && rm ./*.deb"]),
    )?;
    match fs::rename(&unpacked, folder) {
        // Another instance of this program was first.
        Err(_) if folder.is_dir() => Ok(()),
        renamed => renamed.map_err(Problem::file(folder)),
    }
}

/// Returns the numbers in a package's version, if it is a kernel of that branch and variant.
fn version(name: &str, package: &str) -> Option<Vec<u32>> {
    let (branch, is_rt) = match name.strip_suffix("-rt") {
        Some(branch) => (branch, true),
        None => (name, false),
    };
    let rest = package.strip_prefix("linux-image-")?.strip_suffix("-amd64")?;
    let rest = match rest.strip_suffix("-rt") {
        Some(rest) if is_rt => rest,
        None if !is_rt => rest,
        _ => return None,
    };
    let after = rest.strip_prefix(branch)?.strip_prefix('.')?;
    let numbers = after.replace("deb", "");
    numbers.split(['.', '-', '+', '~']).map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_belongs_to_one_branch_and_variant() {
        assert_eq!(version("6.12", "linux-image-6.12.117+deb12-amd64"), Some(vec![117, 12]));
        assert_eq!(version("6.12-rt", "linux-image-6.12.117+deb12-rt-amd64"), Some(vec![117, 12]));
        assert_eq!(version("6.1", "linux-image-6.1.0-56-amd64"), Some(vec![0, 56]));
        for other in [
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-amd64-unsigned",
            "linux-image-6.1.0-56-amd64-dbg",
            "linux-image-6.1-amd64",
        ] {
            assert_eq!(version("6.1", other), None, "{other}");
        }
    }
}
