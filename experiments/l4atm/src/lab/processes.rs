//! Other processes, which never outlive their experiment.

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_linux::process::{Blocked, die_with_parent};
use punctual_model::Duration;
use serde::de::DeserializeOwned;

use crate::Error;

/// A process, which is killed when this value is dropped.
pub(crate) struct Member {
    child: Child,
    /// The thread that reads its output, so that it never waits for a full pipe.
    printed: Option<JoinHandle<std::io::Result<String>>>,
}

impl Member {
    pub(super) fn start(command: &mut Command, blocked: &Blocked) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        die_with_parent(command);
        blocked.unblock_on_exec(command);
        let program = command.get_program().to_owned();
        let mut child = command.spawn().map_err(|why| format!("{}: {why}", program.display()))?;
        let printed = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).map(|_| text)
            })
        });
        Ok(Self { child, printed })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output once it has ended, within this time.
    pub(crate) fn output(mut self, patience: Duration) -> Result<String, Error> {
        let until = clock::now() + patience;
        while self.child.try_wait()?.is_none() {
            if clock::now() > until {
                return Err(format!("process {} does not end", self.pid()).into());
            }
            clock::sleep(Duration::from_millis(2));
        }
        let status = self.child.wait()?;
        let text = match self.printed.take().map(JoinHandle::join) {
            Some(Ok(text)) => text?,
            _ => return Err("nobody read what a process printed".into()),
        };
        match status.success() {
            true => Ok(text),
            false => Err(format!("a process of the experiment ended with {status}").into()),
        }
    }

    /// Returns its output, parsed as the report of its role.
    pub(crate) fn report<T: DeserializeOwned>(self, patience: Duration) -> Result<T, Error> {
        Ok(serde_json::from_str(&self.output(patience)?)?)
    }

    /// Returns the processor time of its first thread, in nanoseconds, as the scheduler counts it.
    pub(crate) fn first_thread_time(&self) -> Result<u64, Error> {
        let books = fs::read_to_string(format!("/proc/{}/schedstat", self.pid()))?;
        Ok(books.split(' ').next().unwrap_or_default().parse()?)
    }

    /// Returns the processor time of its thread of this name, in nanoseconds, as the scheduler
    /// counts it.
    pub(crate) fn thread_time(&self, name: &str) -> Result<u64, Error> {
        let tasks = format!("/proc/{}/task", self.pid());
        for task in fs::read_dir(&tasks)? {
            let task = task?.path();
            if fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name) {
                let books = fs::read_to_string(task.join("schedstat"))?;
                let ran = books.split(' ').next().unwrap_or_default();
                return Ok(ran.parse()?);
            }
        }
        Err(format!("no thread \"{name}\" in {tasks}").into())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
