//! The root file system of a machine: an archive that the kernel unpacks into memory.
//!
//! No disk is read, so the host's timing has no influence. It holds busybox, the requested modules
//! and their dependencies, and programs with their shared libraries at the same paths as on the
//! host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::output_of;
use crate::kernel::Kernel;
use crate::problem::Problem;

/// The first process of each machine.
const INIT: &str = include_str!("../guest/init");
const SEND: &str = include_str!("../guest/send");
/// The accounts: root, the user of daemons without privileges, and ordinary users, one with
/// subordinate users.
const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n\
                      punctual:x:999:999::/:/bin/false\nanna:x:1001:1001::/tmp:/bin/sh\n\
                      bert:x:1002:1002::/tmp:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\npunctual:x:999:\nanna:x:1001:\nbert:x:1002:\n";
const SUBORDINATE: &str = "anna:100000:65536\nbert:200000:65536\n";

/// The contents of a machine's root beside busybox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// Programs: the name in `/lab/bin`, and the host's file.
    pub(crate) programs: Vec<(String, PathBuf)>,
    /// Programs and folders of the host, at the same path.
    pub(crate) of_host: Vec<PathBuf>,
    /// The project's files, below `/lab/project`.
    pub(crate) of_project: Vec<PathBuf>,
    /// Kernel modules, by name.
    pub(crate) modules: Vec<String>,
    /// The script to run.
    pub(crate) command: String,
}

impl Contents {
    /// Writes the archive to `archive`, using `room` to put it together.
    ///
    /// # Errors
    /// Fails if a file is missing, or there is no room.
    pub(crate) fn pack(&self, kernel: &Kernel, room: &Path, archive: &Path) -> Result<(), Problem> {
        let root = room.join("root");
        let mut wanted = BTreeSet::new();
        wanted.insert(PathBuf::from("/bin/busybox"));
        for (name, program) in &self.programs {
            let copied = root.join("lab/bin").join(name);
            copy(program, &copied)?;
            output_of(Command::new("strip").arg("--strip-debug").arg(&copied))?;
            wanted.extend(libraries(program)?);
            // Tests know other programs by the paths at which cargo built them.
            let built = inside(&root, program);
            make_folder_of(&built)?;
            symlink(Path::new("/lab/bin").join(name), &built).map_err(Problem::file(&built))?;
        }
        for path in &self.of_host {
            wanted.extend(libraries(path)?);
            wanted.insert(path.clone());
        }
        for path in &wanted {
            copy(path, &inside(&root, path))?;
        }
        for path in &self.of_project {
            copy(&crate::host::project().join(path), &root.join("lab/project").join(path))?;
        }
        self.copy_modules(kernel, &root)?;
        for (path, text) in [
            ("init", INIT),
            ("lab/send", SEND),
            ("lab/command", &self.command),
            ("lab/modules", &self.modules.join("\n")),
            ("etc/passwd", PASSWD),
            ("etc/group", GROUP),
            ("etc/subuid", SUBORDINATE),
            ("etc/subgid", SUBORDINATE),
            ("etc/hosts", "127.0.0.1 localhost machine\n"),
        ] {
            let path = root.join(path);
            make_folder_of(&path)?;
            fs::write(&path, text).map_err(Problem::file(&path))?;
        }
        let init = root.join("init");
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))
            .map_err(Problem::file(&init))?;
        let shell = root.join("bin/sh");
        symlink("busybox", &shell).map_err(Problem::file(&shell))?;
        let pack = "find . -print0 | LC_ALL=C sort -z | \
                    cpio --null --create --format=newc --reproducible --owner=0:0 --quiet >\"$0\"";
        output_of(Command::new("sh").arg("-c").arg(pack).arg(archive).current_dir(&root))?;
        fs::remove_dir_all(&root).map_err(Problem::file(&root))
    }

    /// Copies modules and their dependencies, uncompressed, with an index for `modprobe`.
    ///
    /// A module that this kernel does not have is left out; the machine reports it.
    fn copy_modules(&self, kernel: &Kernel, root: &Path) -> Result<(), Problem> {
        let base = Path::new("lib/modules").join(&kernel.release);
        let index = kernel.folder.join(&base).join("modules.dep");
        if !index.exists() {
            depmod(&kernel.folder, kernel)?;
        }
        for name in &self.modules {
            let listed = output_of(
                Command::new("/sbin/modprobe")
                    // Without this host's module options.
                    .args(["--config", "/dev/null"])
                    .args(["--show-depends", "--ignore-install", "--set-version"])
                    .arg(&kernel.release)
                    .arg("--dirname")
                    .arg(&kernel.folder)
                    .arg(name),
            );
            for file in
                listed.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("insmod "))
            {
                let file = Path::new(file.trim());
                let relative = file.strip_prefix(&kernel.folder).unwrap_or(file);
                let copied = root.join(relative);
                copy(file, &copied)?;
                if copied.extension().is_some_and(|extension| extension == "xz") && copied.exists()
                {
                    output_of(Command::new("xz").args(["--decompress", "--force"]).arg(&copied))?;
                }
            }
        }
        for list in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
            copy(&kernel.folder.join(&base).join(list), &root.join(&base).join(list))?;
        }
        depmod(root, kernel)
    }
}

/// Indexes the modules below a folder.
fn depmod(folder: &Path, kernel: &Kernel) -> Result<(), Problem> {
    let mut command = Command::new("/sbin/depmod");
    output_of(command.arg("--basedir").arg(folder).arg(&kernel.release)).map(drop)
}

/// Returns the shared libraries of a program; none for a script, a folder or a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Problem> {
    if program.is_dir() {
        return Ok(Vec::new());
    }
    let Ok(text) = output_of(Command::new("ldd").arg(program)) else { return Ok(Vec::new()) };
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path.split(" (").next().unwrap_or(path)))
    });
    Ok(paths.collect())
}

/// Returns where a path of the host lies below `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Copies a file, or a folder with all its contents.
fn copy(from: &Path, to: &Path) -> Result<(), Problem> {
    if to.exists() {
        return Ok(());
    }
    make_folder_of(to)?;
    if from.is_dir() {
        return output_of(Command::new("cp").args(["-r", "-L"]).arg(from).arg(to)).map(drop);
    }
    fs::copy(from, to).map(drop).map_err(Problem::file(from))
}

/// Makes the parent folder of a file.
fn make_folder_of(path: &Path) -> Result<(), Problem> {
    let folder = path.parent().expect("below the root");
    fs::create_dir_all(folder).map_err(Problem::file(folder))
}
