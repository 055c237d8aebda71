//! Tests of the logic, with channels whose other end the tests hold.

mod fds;
mod process;
mod routes;

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_channel::client::compact::Compact;
use punctual_channel::client::{Attach as _, Sending};
use punctual_channel::rings::{Made, Side, Takes, both};
use punctual_linux::pass::Bell;
use punctual_ring::frames::Geometry;

use crate::process::{Holder, Opened, Opener, Process};

fn request() -> Compact {
    "100/s,delay=5ms,max=100,burst=2".parse().expect("good")
}

fn geometry() -> Geometry {
    Geometry::new(4, 100).expect("valid")
}

/// The server's ends of the channels that were opened or rejoined.
#[derive(Clone, Default)]
struct Handed(Arc<Mutex<Vec<Side<Takes>>>>);

impl Handed {
    fn push(&self, passed: Side<Takes>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(passed);
    }

    fn pop(&self) -> Option<Side<Takes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Returns the other end of the channel that was opened last.
    fn server(&self) -> Server {
        let side = self.pop().expect("opened");
        Server { takes: side.end, _bell: side.bell }
    }
}

struct Server {
    takes: Takes,
    _bell: Bell,
}

impl Server {
    fn next(&mut self) -> Option<Vec<u8>> {
        let frame = self.takes.take().expect("honest")?;
        let mut bytes = vec![0; frame.len()];
        frame.read(0, &mut bytes);
        // No client sleeps, because one thread does it all.
        let _ = self.takes.release(1);
        Some(bytes)
    }
}

struct Fake {
    handed: Handed,
    refuses: bool,
}

impl Opener for Fake {
    fn open(&self, _request: &Compact, _to: SocketAddr) -> Result<Opened, String> {
        if self.refuses {
            return Err("refused by the test".to_owned());
        }
        let (client, server) = both::<Takes>(geometry()).expect("memory");
        self.handed.push(server);
        Ok(Opened { sending: client.into(), held: Box::new(Kept(self.handed.clone())) })
    }
}

struct Kept(Handed);

impl Holder for Kept {
    fn rejoin(&mut self, sending: &mut Sending) -> Result<(), String> {
        let first = sending.next_number().map_err(|why| why.to_string())?;
        let (made, passed) = Made::<Takes>::new(geometry(), first).expect("memory");
        sending.rejoin(passed, first).map_err(|why| why.to_string())?;
        made.seal().expect("ours");
        self.0.push(made.freeze().expect("as made"));
        Ok(())
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// Makes a process with a channel to `to`.
fn process(to: Option<SocketAddr>, refuses: bool) -> (Process, Handed) {
    let handed = Handed::default();
    let opens = Box::new(Fake { handed: handed.clone(), refuses });
    (Process::new(request(), to, opens, 7), handed)
}
