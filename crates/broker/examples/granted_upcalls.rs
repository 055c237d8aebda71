//! Real-time upcalls of an ordinary user: the broker gives the thread that runs them its class.
//!
//! Two senders and a mixer share one thread without a lock. The thread asks the broker before
//! anything is released, and again if a handler did not return and another thread goes on. Its
//! level is fixed: so the broker must be in fixed-level mode, which is the default.
//!
//! ```sh
//! sudo punctual serve --socket /run/punctual-try/broker.sock --state /run/punctual-try/state
//! cargo run -p punctual-broker --example granted_upcalls -- /run/punctual-try/broker.sock
//! ```

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_client::SOCKET;
use punctual_client::want::Want;
use punctual_client::{Broker, Granted};
use punctual_linux::clock;
use punctual_linux::thread::Tid;
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::{Placement, Upcalls};

/// Works on its PDUs and counts them.
struct Worker {
    time_per_pdu: Service,
    pdus: u64,
}

impl Handler for Worker {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        // Stands for work that takes this much processor time.
        let end = clock::thread_cpu_time()
            + self.time_per_pdu.checked_mul(pdus.into()).unwrap_or(Service::ZERO);
        while clock::thread_cpu_time() < end {}
        self.pdus += u64::from(pdus);
        pdus
    }
}

/// A name, the milliseconds of a period, PDUs a period, microseconds of a PDU.
const WORK: [(&str, u64, u32, u64); 3] =
    [("sender a", 20, 4, 100), ("sender b", 40, 6, 100), ("mixer", 60, 8, 150)];

/// Requests `upcalls` for the thread that is to run them. An earlier thread's grant is given back
/// first: its class is gone by then.
fn ask(
    broker: &mut Broker,
    has: &mut Option<Granted>,
    thread: Tid,
    upcalls: &[Upcall],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    if broker.level_order() {
        return Err("this broker is in level-order mode: use Placement::Upcalls".into());
    }
    if let Some(before) = has.take() {
        before.release(broker)?;
    }
    let granted = broker.request(&Want { thread, ..Want::upcalls(upcalls.to_vec()) })?;
    println!("granted: {}, on CPU {:?}", granted.want().what, granted.cpu());
    *has = Some(granted);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args_os().nth(1).map_or_else(|| SOCKET.into(), PathBuf::from);
    let broker = Arc::new(Mutex::new((Broker::connect_to(&path)?, None)));
    let upcall = |(name, period, batch, time): (&str, u64, u32, u64)| {
        Upcall::new(UpcallSpec {
            name: name.into(),
            period: Duration::from_millis(period),
            batch,
            quantum: 1,
            time_per_pdu: Service::from_micros(time),
        })
    };
    let all: Vec<Upcall> = WORK.into_iter().map(upcall).collect::<Result<_, _>>()?;
    // The upcalls are admitted twice: here, with the cost of containment, and by the broker beside
    // everything else that it has granted.
    let mut upcalls = Upcalls::new(Placement::Granted, HostProfile::ideal(1)).with_grant({
        let (broker, all) = (Arc::clone(&broker), all.clone());
        move |thread| {
            let mut held = broker.lock().unwrap_or_else(PoisonError::into_inner);
            let (broker, has) = &mut *held;
            ask(broker, has, thread, &all)
        }
    });
    for upcall in all {
        let time_per_pdu = upcall.time_per_pdu();
        upcalls.create(upcall, Worker { time_per_pdu, pdus: 0 })?;
    }
    let running = upcalls.run(clock::now())?;
    clock::sleep(Duration::from_secs(2));
    let stopped = running.stop()?;
    for ((name, ..), worker) in WORK.iter().zip(&stopped.handlers) {
        println!("{name}: {} PDUs", worker.pdus);
    }
    let mut held = broker.lock().unwrap_or_else(PoisonError::into_inner);
    let (broker, has) = &mut *held;
    broker.events(|_, event| println!("the broker said: {event:?}"))?;
    if let Some(granted) = has.take() {
        granted.release(broker)?;
    }
    println!("done: {} of processor time", stopped.exec_time);
    Ok(())
}
