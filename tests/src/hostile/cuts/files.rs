//! Cuts commands that write files: the file found must be the old or the new one, and complete.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::cutter::{Action, Cutter, Ended};
use super::local::{end_of, held};
use super::{Cycle, Sweep};
use crate::hostile::kills;

/// The contents before the command.
const OLD: &[u8] = b"what was there before\n";

/// A file of another program on the same disk.
const ANOTHER: &str = "another";

/// A contract with the tasks whose jobs the command writes about.
const CONTRACT: &str = include_str!("../../../../examples/studio.toml");

/// The kind of file that a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `punctual export`, through a temporary file beside the target.
    Export,
    /// `punctual report`, also through a temporary file.
    Report,
    /// `punctual simulate --trace`, block by block.
    Trace,
}

struct Stage {
    sweep: Sweep,
    kind: Kind,
    punctual: PathBuf,
    folder: TempDir,
    /// The directory of the file: on a disk of its own if power is cut.
    place: PathBuf,
    new: Vec<u8>,
    cutter: Cutter,
}

pub(super) fn prepare(sweep: Sweep, kind: Kind) -> Result<Cycle, String> {
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let place = folder.path().join("disk");
    fs::create_dir(&place).map_err(|why| why.to_string())?;
    if sweep.action == Action::Hold {
        let image = folder.path().join("image");
        fs::File::create(&image)
            .and_then(|file| file.set_len(16 << 20))
            .map_err(|why| why.to_string())?;
        system(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&image))?;
        system(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&place))?;
    }
    let punctual = kills::built("punctual")?;
    let mut stage =
        Stage { sweep, kind, punctual, folder, place, new: Vec::new(), cutter: Cutter::start() };
    let contract = stage.beside("contract.toml");
    fs::write(&contract, CONTRACT).map_err(|why| why.to_string())?;
    let mut simulate = stage.simulate(&stage.beside("trace"));
    system(&mut simulate)?;
    system(&mut stage.command())?;
    stage.new = fs::read(stage.file()).map_err(|why| why.to_string())?;
    Ok(Box::new(move |at| stage.cut(at)))
}

/// Runs a program of the system.
fn system(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("{command:?}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

impl Stage {
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.place.join("file")
    }

    fn simulate(&self, to: &Path) -> Command {
        let mut command = Command::new(&self.punctual);
        command.arg("simulate").arg(self.beside("contract.toml"));
        command.args(["--for", "100ms", "--force", "--trace"]).arg(to);
        command
    }

    /// Returns the command that writes the file.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.punctual);
        match self.kind {
            Kind::Export => {
                command.arg("export").arg(self.beside("trace")).args(["--format", "perfetto"])
            }
            Kind::Report => command.arg("report").arg(self.beside("trace")).arg("--force"),
            Kind::Trace => return self.simulate(&self.file()),
        };
        command.arg("-o").arg(self.file());
        command
    }

    fn cut(&mut self, at: u64) -> Result<Ended, String> {
        let file = self.file();
        let _ = fs::remove_file(&file);
        let is_old_there = at.is_multiple_of(2);
        if is_old_there {
            fs::write(&file, OLD).map_err(|why| why.to_string())?;
        }
        if self.sweep.action == Action::Hold {
            system(&mut Command::new("sync"))?;
        }
        let mut child = held(&self.command()).spawn().map_err(|why| why.to_string())?;
        self.cutter.arm(self.sweep.action, at, child.id(), true)?;
        if self.sweep.action == Action::Hold {
            let is_held = self.cutter.is_held();
            let after = self.after_power_off()?;
            if is_held {
                self.cutter.go();
            }
            let code = end_of(&mut child)?;
            let ended = self.cutter.done();
            let was = |why| format!("{why} (power off before: {ended:?})");
            self.is_whole(after.as_deref(), is_old_there).map_err(was)?;
            // If the command reported success, the new file is there; otherwise the old one still
            // is.
            let after = self.after_power_off()?;
            self.is_whole(after.as_deref(), is_old_there)
                .map_err(|why| format!("{why} (power off behind its end, exit code {code:?})"))?;
            self.is_tidy(0)?;
            return Ok(ended);
        }
        let code = end_of(&mut child)?;
        let ended = self.cutter.done();
        let was = |why| format!("{why} (cut: {ended:?}, exit code {code:?})");
        let is_cut = matches!(ended, Ended::Cut(_));
        let found = fs::read(&file).ok();
        if self.kind == Kind::Trace {
            self.is_no_lie(is_cut && code != Some(0)).map_err(was)?;
        } else {
            self.is_whole(found.as_deref(), is_old_there).map_err(was)?;
        }
        if code == Some(0) && found.as_deref() != Some(&self.new[..]) && self.kind != Kind::Trace {
            return Err(was("it says that it is done, and is not".into()));
        }
        if !is_cut && code != Some(0) {
            return Err(was("it fails without a cut".into()));
        }
        let is_killed = is_cut && self.sweep.action == Action::Kill;
        self.is_tidy(usize::from(is_killed)).map_err(was)?;
        Ok(ended)
    }

    /// Checks that the file is the old or the new one, and complete.
    fn is_whole(&self, found: Option<&[u8]>, is_old_there: bool) -> Result<(), String> {
        if self.kind == Kind::Trace {
            // Written block by block, without waiting for a disk.
            return Ok(());
        }
        match found {
            None if !is_old_there => Ok(()),
            Some(found) if found == self.new || is_old_there && found == OLD => Ok(()),
            None => Err("what was there is gone".into()),
            Some(found) => {
                Err(format!("{} bytes, neither old nor new ({})", found.len(), self.new.len()))
            }
        }
    }

    /// Checks that a trace whose writer was cut is not reported as having kept anything.
    fn is_no_lie(&self, is_cut: bool) -> Result<(), String> {
        let mut why = Command::new(&self.punctual);
        why.arg("why").arg(self.file()).stdin(Stdio::null());
        let output = why.output().map_err(|why| why.to_string())?;
        match output.status.code() {
            Some(0) if is_cut && fs::read(self.file()).ok().as_deref() != Some(&self.new[..]) => {
                Err("the trace is not whole, and is said to be kept".into())
            }
            Some(0..=4) => Ok(()),
            code => Err(format!("why: {code:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Checks that nothing lies beside the file except what a killed command may have left, and
    /// removes that.
    fn is_tidy(&self, most: usize) -> Result<(), String> {
        let entries = fs::read_dir(&self.place).map_err(|why| why.to_string())?;
        let others: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                *path != self.file() && ![ANOTHER, "lost+found"].iter().any(|of| path.ends_with(of))
            })
            .collect();
        others.iter().for_each(|path| _ = fs::remove_file(path));
        if others.len() > most { Err(format!("left behind: {others:?}")) } else { Ok(()) }
    }

    /// Returns what would be found in place of the file if power failed now.
    ///
    /// Another program has synced its own file before: thus the file system's journal has
    /// everything that happened so far, but not the contents of files that no program synced.
    fn after_power_off(&self) -> Result<Option<Vec<u8>>, String> {
        fs::File::create(self.place.join(ANOTHER))
            .and_then(|mut file| file.write_all(OLD).and_then(|()| file.sync_all()))
            .map_err(|why| why.to_string())?;
        let (image, copy) = (self.beside("image"), self.beside("after"));
        fs::copy(&image, &copy).map_err(|why| why.to_string())?;
        let mounted = self.beside("mounted");
        let _ = fs::create_dir(&mounted);
        system(Command::new("mount").args(["-o", "loop"]).arg(&copy).arg(&mounted))?;
        let found = fs::read(mounted.join("file")).ok();
        system(Command::new("umount").arg(&mounted))?;
        Ok(found)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.sweep.action == Action::Hold {
            let _ = system(Command::new("umount").arg(&self.place));
        }
    }
}
