//! One of the processes of the study: this program again.

use std::hint::spin_loop;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use punctual_linux::net::{Inbox, Outgoing, Place, Readiness, Setup, UdpSocket};
use punctual_linux::{clock, memory};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::Kind;
use serde::{Deserialize, Serialize};

/// The periods of the paper (real-time upcalls, §7.3).
const CLIENT: Duration = Duration::from_millis(20);
const SERVER: Duration = Duration::from_millis(10);

/// The declared time of a packet of the largest size.
const TIME_PER_PACKET: Service = Service::from_micros(8);

/// The packets between two yield points.
const QUANTUM: u32 = 8;

/// A host with other tenants stops the CPU for milliseconds, which is no handler's fault.
const GRACE: Duration = Duration::from_millis(10);

/// The part that a process plays.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum Part {
    /// Receives, after printing its address.
    Server { upcall: bool },
    /// Sends.
    Client { upcall: bool, to: SocketAddr },
    /// Spins.
    Hog,
}

/// The role of a process.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Role {
    pub(crate) part: Part,
    pub(crate) cpu: usize,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) start: u64,
    pub(crate) until: u64,
    /// The payload of a packet.
    pub(crate) bytes: u16,
    /// The packets of a job.
    pub(crate) batch: u32,
    /// The bytes that the server's socket buffers.
    pub(crate) buffer: usize,
}

/// The result of a process.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Report {
    /// The packets sent or received in time.
    pub(crate) packets: u64,
    /// The packets dropped by the server's socket because it was full.
    pub(crate) dropped: u64,
    pub(crate) late: u64,
}

/// Sends or receives a packet, and returns whether there was one.
type Step = Box<dyn FnMut() -> bool + Send>;

/// The batch of an upcall.
struct Batch {
    step: Step,
    packets: u64,
    until: Instant,
}

impl Handler for Batch {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        if now >= self.until {
            return 0;
        }
        let done = (0..pdus).take_while(|_| (self.step)()).count() as u32;
        self.packets += u64::from(done);
        done
    }
}

/// Plays `role`, and prints the result.
pub(crate) fn play(role: &str) -> Result<(), Box<dyn std::error::Error>> {
    let role: Role = serde_json::from_str(role)?;
    punctual_linux::thread::pin_to(role.cpu)?;
    let _locked = memory::lock_all();
    let report = match role.part {
        Part::Server { upcall } => serve(&role, upcall)?,
        Part::Client { upcall, to } => send(&role, upcall, to)?,
        Part::Hog => {
            // Until it is killed at the end of the run, or a while later by itself.
            while clock::now() < role.until() + Duration::from_secs(5) {
                spin_loop();
            }
            Report::default()
        }
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(())
}

fn serve(role: &Role, upcall: bool) -> Result<Report, Box<dyn std::error::Error>> {
    let socket = UdpSocket::open(&Setup::at((Ipv4Addr::LOCALHOST, 0).into()))?;
    let given = socket.set_receive_buffer(role.buffer)?;
    if given < role.buffer {
        return Err(format!(
            "the socket keeps {given} of {} bytes: it takes CAP_NET_ADMIN or a larger \
             net.core.rmem_max",
            role.buffer
        )
        .into());
    }
    writeln!(io::stdout(), "{}", socket.local_address()?)?;
    io::stdout().flush()?;
    // Read at the end for the number of dropped packets.
    let socket = Arc::new(socket);
    let books = Arc::clone(&socket);
    let mut inbox = Inbox::new(1, role.bytes.into());
    let receive: Step = Box::new(move || socket.receive(&mut inbox).is_ok_and(|got| got > 0));
    let report = match upcall {
        true => as_upcall(role, SERVER, receive)?,
        false => plain(role, receive, |until| {
            let _ = books.wait(Readiness::Readable, until);
        }),
    };
    Ok(Report { dropped: books.drops()?.into(), ..report })
}

fn send(role: &Role, upcall: bool, to: SocketAddr) -> Result<Report, Box<dyn std::error::Error>> {
    let socket = UdpSocket::open(&Setup::to(to))?;
    let bytes = vec![0; role.bytes.into()];
    // An error means that a queue is full, or that the server ended first: an upcall does not wait
    // for that, and a plain client tries again.
    let send: Step = Box::new(move || socket.send(&Outgoing::new(&[Place::of(&bytes)])).is_ok());
    match upcall {
        true => as_upcall(role, CLIENT, send),
        false => Ok(plain(role, send, |_| std::thread::yield_now())),
    }
}

/// Runs a loop in `main`, which waits if there is nothing to do.
fn plain(role: &Role, mut step: Step, mut wait: impl FnMut(Instant)) -> Report {
    clock::sleep_until(role.start());
    let mut report = Report::default();
    while clock::now() < role.until() {
        if step() {
            report.packets += 1;
        } else {
            wait(role.until());
        }
    }
    report
}

fn as_upcall(
    role: &Role,
    period: Duration,
    step: Step,
) -> Result<Report, Box<dyn std::error::Error>> {
    let spec = UpcallSpec {
        name: "udp".into(),
        period,
        batch: role.batch,
        quantum: QUANTUM.min(role.batch),
        time_per_pdu: TIME_PER_PACKET,
    };
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1)).with_grace(GRACE);
    // Room for a whole run, because events are not read before its end.
    upcalls = upcalls.with_event_room(1 << 18);
    let batch = Batch { step, packets: 0, until: role.until() };
    upcalls.create(Upcall::new(spec)?, batch)?;
    let running = upcalls.run(role.start())?;
    clock::sleep_until(role.until());
    let stopped = running.stop()?;
    if stopped.events_lost > 0 {
        return Err(format!("{} events were lost: a shorter run fits", stopped.events_lost).into());
    }
    let late = stopped.events.iter().map(|event| match event.kind {
        Kind::Complete => u64::from(event.at - event.release > period),
        Kind::Skip { jobs } => jobs,
        Kind::Contained => 1,
        _ => 0,
    });
    let late = late.sum();
    let batch = stopped.handlers.first().ok_or("the handler did not come back")?;
    Ok(Report { packets: batch.packets, dropped: 0, late })
}

impl Role {
    fn start(&self) -> Instant {
        Instant::from_nanos(self.start)
    }

    fn until(&self) -> Instant {
        Instant::from_nanos(self.until)
    }
}
