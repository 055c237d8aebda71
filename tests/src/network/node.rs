//! One host of a test network.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use punctual_linux::net::namespace::Namespace;

/// A network namespace with a loopback. It forwards, and keeps the addresses of interfaces that are
/// down.
#[derive(Debug)]
pub struct Node {
    namespace: Namespace,
}

impl Node {
    /// Makes a node. Returns `None`, and prints the reason, if this host or user cannot.
    pub(super) fn make() -> Option<Self> {
        if let Err(error) = Command::new("ip").arg("-V").stdout(Stdio::null()).status() {
            println!("skipped: no iproute2 (ip: {error})");
            return None;
        }
        match Namespace::make() {
            Ok(namespace) => {
                let node = Self { namespace };
                node.run(|| {
                    for option in [
                        "ipv4/ip_forward",
                        "ipv6/conf/all/forwarding",
                        "ipv6/conf/all/keep_addr_on_down",
                    ] {
                        // The files are those of the writing thread's namespace.
                        fs::write(format!("/proc/sys/net/{option}"), "1")
                            .expect("a node's own option");
                    }
                });
                Some(node)
            }
            Err(why) => {
                println!("skipped: {why}");
                None
            }
        }
    }

    /// Returns the descriptor that holds it.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Runs `work` inside the namespace, on a thread of its own. Sockets that it opens stay inside
    /// for good.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(work).expect("a namespace of our own")
    }

    /// Starts a program inside.
    ///
    /// # Panics
    /// Panics if there is no such program.
    pub fn start(&self, command: &mut Command) -> Child {
        self.run(|| command.spawn()).expect("starts")
    }

    /// Runs lines of ip(8), without its name.
    ///
    /// # Panics
    /// Panics if ip(8) refuses one.
    pub fn ip(&self, lines: &str) {
        self.try_command("ip", lines).unwrap_or_else(|why| panic!("{lines}: {why}"));
    }

    /// Runs lines of ip(8) or tc(8). The error is their output.
    pub(super) fn try_command(&self, program: &str, lines: &str) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.start(&mut command);
        // Dropped at once: closing the pipe ends the input.
        let written = child.stdin.take().expect("piped").write_all(format!("{lines}\n").as_bytes());
        let output = child.wait_with_output().expect("waits");
        match (output.status.success(), written) {
            (true, Ok(())) => Ok(()),
            (_, written) => Err(format!("{}{written:?}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
