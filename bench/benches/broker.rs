//! Measures a request to the broker with 1,000 live grants, beside a ping through the same socket.
//! The bench `decisions` measures the decision alone.
//!
//! The broker is this program again, and so is the holder of the grants: 1,000 sleeping threads
//! under SCHED_FIFO. A request is admitted, written to the ledger, put in force and answered. It is
//! for 10 µs every 100 ms, and is released again outside the measurement. The ledger is in memory
//! (`/dev/shm`), as `/run` is. Needs root.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_client::want::{Guarantee, Want};
use punctual_client::{Broker, RequestError};
use punctual_linux::process::die_with_parent;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Service, Upcall, UpcallSpec};

const ROLE: &str = "PUNCTUAL_BENCH_ROLE";
const GRANTS: usize = 1_000;
const REQUESTS: usize = 1_000;

const CONFIG: &str = r#"
[host]
cpus = 2
[default]
share = "180%"
max_grants = 2000
allow = ["upcalls", "reservations", "priority"]
"#;

fn main() {
    let role = env::var(ROLE).unwrap_or_default();
    match role.split_once(' ') {
        Some(("broker", folder)) => serve(Path::new(folder)),
        Some(("part", name)) => Part::of_name(name).expect("a part").run().expect("runs"),
        Some(("holder", folder)) => hold(&Path::new(folder).join("socket")),
        _ => measure(),
    }
}

fn serve(folder: &Path) {
    let options = Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
        part: |part| {
            let mut command = Command::new("/proc/self/exe");
            command.env(ROLE, format!("part {}", part.name()));
            command
        },
    };
    Server::open(options).expect("opens").run().expect("runs");
}

/// Periods of 20 to 120 ms, with 0.2 parts per thousand of a CPU each, leave room for the requests.
fn upcall(at: usize) -> Upcall {
    let period = Duration::from_micros(20_000 + (at as u64 * 7_919) % 100_000);
    Upcall::new(UpcallSpec {
        name: format!("u{at}"),
        period,
        batch: 1,
        quantum: 1,
        time_per_pdu: Service::from_nanos(period.as_nanos() / 5_000),
    })
    .expect("valid")
}

fn hold(socket: &Path) {
    let mut broker = Broker::connect_to(socket).expect("it runs");
    let mut ends = Vec::new();
    for at in 0..GRANTS {
        let (thread, end) = sleeper();
        let want = Want { thread, what: Guarantee::Upcalls(vec![upcall(at)]) };
        broker.request(&want).expect("there is room for all");
        ends.push(end);
    }
    println!("held");
    let _ = std::io::stdin().lines().next();
}

/// Starts a thread that sleeps until the sender is dropped.
fn sleeper() -> (thread::Tid, mpsc::Sender<()>) {
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        tell.send(thread::current()).expect("waited for");
        let _ = ended.recv();
    });
    (told.recv().expect("it says"), end)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(role: &str, folder: &Path, output: Stdio) -> Killed {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.env(ROLE, format!("{role} {}", folder.display())).stdout(output).stdin(Stdio::piped());
    die_with_parent(&mut command);
    Killed(command.spawn().expect("this program"))
}

fn connect(socket: &Path) -> Broker {
    for _ in 0..500 {
        if let Ok(broker) = Broker::connect_to(socket) {
            return broker;
        }
        clock::sleep(Duration::from_millis(10));
    }
    panic!("the broker does not answer");
}

fn measure() {
    if let Err(refused) = sched::try_out(Class::Fifo { priority: 1 }) {
        println!("skipped: {refused}");
        return;
    }
    let folder = tempfile::Builder::new().prefix("punctual-bench").tempdir_in("/dev/shm");
    let folder = folder.expect("memory");
    std::fs::write(folder.path().join("broker.toml"), CONFIG).expect("ours");
    let server = start("broker", folder.path(), Stdio::null());
    let socket: PathBuf = folder.path().join("socket");
    let mut broker = connect(&socket);
    run("no other grant", &mut broker);

    let mut holder = start("holder", folder.path(), Stdio::piped());
    let output = holder.0.stdout.take().expect("piped");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("it lives");
    assert_eq!(line, "held\n");
    run(&format!("{GRANTS} grants live"), &mut broker);

    let before = processor_time(&server);
    clock::sleep(Duration::from_secs(5));
    let used = processor_time(&server) - before;
    println!("watching {GRANTS} grants: {:.2} % of a CPU", used / 5.0 * 100.0);
    drop(holder);
    drop(server);
}

/// Returns the processor time of the process's first thread, its only one, in seconds.
fn processor_time(of: &Killed) -> f64 {
    let path = format!("/proc/{0}/task/{0}/schedstat", of.0.id());
    let text = std::fs::read_to_string(path).expect("it lives");
    let nanos: f64 = text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number");
    nanos / 1e9
}

fn run(beside: &str, broker: &mut Broker) {
    // The grants are for a thread that does not run: the requests themselves are no overuse.
    let (thread, _end) = sleeper();
    let upcalls = |period_us: u64| {
        let spec = UpcallSpec {
            name: "asked".into(),
            period: Duration::from_micros(period_us),
            batch: 1,
            quantum: 1,
            time_per_pdu: Service::from_micros(10),
        };
        Want { thread, what: Guarantee::Upcalls(vec![Upcall::new(spec).expect("valid")]) }
    };
    let (mut pings, mut requests, mut reservations) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..REQUESTS {
        pings.push(timed(|| broker.ping().expect("it answers")));
        let want = upcalls(20_000 + (at as u64 * 104_729) % 100_000);
        let mut granted = None;
        requests.push(timed(|| granted = Some(broker.request(&want).expect("there is room"))));
        if let Some(granted) = granted {
            granted.release(broker).expect("it answers");
        }
        // Each of these checks all upcalls anew, so there are fewer of them.
        if at % 10 == 0 {
            // With budget enough to wait for the answer unthrottled.
            let want = Want::reservation("1ms/10ms".parse().expect("valid"));
            // Refused while the upcalls that were released last linger: the faster the broker, the more of them.
            loop {
                let mut answer = None;
                let took = timed(|| answer = Some(broker.request(&want)));
                match answer.expect("asked") {
                    Ok(granted) => {
                        reservations.push(took);
                        granted.release(broker).expect("it answers");
                        break;
                    }
                    Err(RequestError::Refused(_)) => clock::sleep(Duration::from_millis(20)),
                    Err(other) => panic!("{other}"),
                }
            }
            // Until the kernel's bandwidth is free again.
            clock::sleep(Duration::from_millis(20));
        }
    }
    println!("{beside}:");
    for (what, times) in [("ping", pings), ("upcalls", requests), ("reservation", reservations)] {
        show(what, times);
    }
}

fn show(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)] as f64 / 1_000.0;
    println!("  {what}: p50 {:.1} µs, p99 {:.1} µs, of {}", at(50), at(99), times.len());
}

fn timed(what: impl FnOnce()) -> u64 {
    let start = clock::now();
    what();
    (clock::now() - start).as_nanos()
}
