//! A sender of an ordinary user that adapts to what it is granted.
//!
//! It wants to encode and send ten frames every 20 ms. It asks the broker, takes the counter-offer
//! if that is too much, and runs. After a while its frames get more complex than it declared; the
//! broker warns it that it nears its limit, it sends fewer at once, and asks for what it needs
//! instead.
//!
//! ```sh
//! sudo punctual serve --socket /run/punctual-try/broker.sock --state /run/punctual-try/state
//! cargo run -p punctual-broker --example scaling_sender -- /run/punctual-try/broker.sock
//! ```

use std::env;
use std::error::Error;

use punctual_client::want::{Guarantee, Want};
use punctual_client::wire::{Event, Offered};
use punctual_client::{Broker, Granted, RequestError};
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Service, Upcall, UpcallError, UpcallSpec};
use punctual_runtime::level_order::level_of;

const PERIOD: Duration = Duration::from_millis(20);
const FRAMES: u32 = 10;
/// The processor time of a frame, as declared and as it becomes.
const SIMPLE: Service = Service::from_micros(500);
const COMPLEX: Service = Service::from_micros(700);
/// The job from which on frames are complex.
const TURN: u32 = 100;
const JOBS: u32 = 400;

fn sender(batch: u32, time_per_pdu: Service) -> Result<Guarantee, UpcallError> {
    let name = "sender".into();
    let upcall = Upcall::new(UpcallSpec { name, period: PERIOD, batch, quantum: 1, time_per_pdu })?;
    Ok(Guarantee::Upcalls(vec![upcall]))
}

/// Returns how many frames a period a grant allows.
fn frames_of(what: &Guarantee) -> u32 {
    match what {
        Guarantee::Upcalls(upcalls) => upcalls.iter().map(|upcall| upcall.batch().get()).sum(),
        _ => 0,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut broker = match env::args().nth(1) {
        Some(path) => Broker::connect_to(path.as_ref())?,
        None => Broker::connect()?,
    };
    let this = thread::current();
    let want = Want { thread: this, what: sender(FRAMES, SIMPLE)? };
    let mut granted = match broker.request(&want) {
        Err(RequestError::Refused(refused)) => {
            println!("{refused}");
            broker.accept_offer(&refused)?
        }
        answer => answer?,
    };
    if broker.level_order() {
        // The broker lets this thread raise itself; in the other mode it has raised it already.
        sched::set(this, Class::Fifo { priority: level_of(PERIOD) })?;
    }
    let mut frames = frames_of(&granted.want().what);
    println!("granted: {frames} frames every {PERIOD}, on CPU {:?}", granted.cpu());

    let mut release = clock::now();
    for job in 0..JOBS {
        let time = if job < TURN { SIMPLE } else { COMPLEX };
        for _ in 0..frames {
            encode(time);
        }
        // Between two jobs, so that an answer of the broker takes no job's time.
        let mut told = Vec::new();
        broker.events(|_, event| told.push(event))?;
        for event in told {
            frames = react(event, frames, time, &mut granted, &mut broker)?;
        }
        release += PERIOD;
        clock::sleep_until(release);
    }
    if broker.level_order() {
        sched::set(this, Class::Other { nice: 0 })?;
    }
    granted.release(&mut broker)?;
    println!("done: {frames} frames every {PERIOD} at the end");
    Ok(())
}

/// Stands for work that takes this much processor time.
fn encode(time: Service) {
    let end = clock::thread_cpu_time() + time;
    while clock::thread_cpu_time() < end {}
}

/// Returns how many frames a period to send from here on.
fn react(
    event: Event,
    frames: u32,
    time: Service,
    granted: &mut Granted,
    broker: &mut Broker,
) -> Result<u32, Box<dyn Error>> {
    match event {
        Event::NearLimit { used_ppm, granted_ppm }
        | Event::Broken { used_ppm, granted_ppm, .. } => {
            println!("used {used_ppm} of {granted_ppm} parts per million");
            let has = granted.want().what.share_ppm();
            // Send what fits at once, and have the grant state the real cost of the frames.
            let fewer = (1..=frames)
                .rev()
                .find(|&fewer| sender(fewer, time).is_ok_and(|what| what.share_ppm() <= has));
            renegotiate(sender(fewer.unwrap_or(1), time)?, granted, broker)
        }
        Event::Choose { must_free_ppm, offers, .. } => {
            println!("the host needs {must_free_ppm} parts per million back");
            let smaller = offers
                .into_iter()
                .find_map(|Offered { want, .. }| Want::try_from(want).ok().map(|want| want.what));
            match smaller {
                Some(what) => renegotiate(what, granted, broker),
                None => Err("nothing smaller would do".into()),
            }
        }
        Event::MoreAvailable { .. } => renegotiate(sender(FRAMES, time)?, granted, broker),
        Event::Revoked { why } => Err(why.into()),
        // It has no channels, and is no program that is held.
        Event::ChannelEnded { .. } | Event::Used { .. } => Ok(frames),
        Event::Unknown(said) => {
            println!("the broker says what this program does not understand: {said}");
            Ok(frames)
        }
    }
}

/// Requests `what` in place of the present grant, and keeps that if it is refused.
fn renegotiate(
    what: Guarantee,
    granted: &mut Granted,
    broker: &mut Broker,
) -> Result<u32, Box<dyn Error>> {
    if what == granted.want().what {
        return Ok(frames_of(&what));
    }
    match granted.change(broker, what) {
        Ok(()) => println!("changed to {}", granted.want().what),
        Err(RequestError::Refused(refused)) => println!("{refused}"),
        Err(other) => return Err(other.into()),
    }
    Ok(frames_of(&granted.want().what))
}
