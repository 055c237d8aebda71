//! The commands of a client process: each is a line of input, answered by a line of output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use punctual_client::want::{Guarantee, Want};
use punctual_client::wire::{MAX_MESSAGE, Received, Refused, Socket};
use punctual_client::{Broker, Granted, RequestError};
use punctual_linux::clock;
use punctual_linux::process::die_with_parent;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Service, Upcall, UpcallSpec};

struct State {
    socket: PathBuf,
    broker: Option<Broker>,
    raw: Option<Socket>,
    granted: BTreeMap<u64, Granted>,
    refused: Option<Refused>,
    children: Vec<Child>,
}

pub(crate) fn obey(socket: PathBuf) {
    let mut state = State {
        socket,
        broker: None,
        raw: None,
        granted: BTreeMap::new(),
        refused: None,
        children: Vec::new(),
    };
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("readable");
        let words: Vec<&str> = line.split(' ').collect();
        let answer = state.obey(&words, &line);
        say(&answer);
    }
    state.children.iter_mut().for_each(|child| _ = child.kill());
}

/// Prints a marked line, since the harness writes lines of its own.
fn say(text: &str) {
    println!("> {}", text.replace('\n', " "));
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

impl State {
    fn obey(&mut self, words: &[&str], line: &str) -> String {
        match words {
            ["reserve", text] => self.request(&Want::reservation(text.parse().expect("valid"))),
            ["upcalls", numbers @ ..] => {
                let all = numbers.chunks(4).map(|of| {
                    Upcall::new(UpcallSpec {
                        name: "u".into(),
                        period: Duration::from_micros(number(of[0])),
                        batch: number(of[1]) as u32,
                        quantum: number(of[2]) as u32,
                        time_per_pdu: Service::from_micros(number(of[3])),
                    })
                });
                self.request(&Want::upcalls(all.collect::<Result<_, _>>().expect("valid")))
            }
            ["priority", ppm] => self.request(&Want::priority(number(ppm) as u32)),
            // For a thread of another process.
            ["steal", thread, text] => {
                let thread = thread::Tid::from_raw(number(thread) as i32).expect("positive");
                self.request(&Want { thread, ..Want::reservation(text.parse().expect("valid")) })
            }
            ["run_upcalls", what @ ..] => crate::upcalls::obey(&self.socket, &what.join(" ")),
            ["offer"] => {
                let refused = self.refused.clone().expect("refused before");
                let answer = self.broker().accept_offer(&refused);
                self.keep(answer)
            }
            ["change", id, text] => {
                let what = Guarantee::Reservation(text.parse().expect("valid"));
                let mut granted = self.granted.remove(&number(id)).expect("granted");
                let answer = granted.change(self.broker(), what);
                self.granted.insert(number(id), granted);
                match answer {
                    Ok(()) => "changed".into(),
                    Err(RequestError::Refused(refused)) => refused.to_string(),
                    Err(other) => format!("error {other}"),
                }
            }
            ["release", id] => {
                let granted = self.granted.remove(&number(id)).expect("granted");
                match granted.release(self.broker()) {
                    Ok(()) => "released".into(),
                    Err(why) => format!("error {why}"),
                }
            }
            ["leave"] => {
                let (_, granted) = self.granted.pop_first().expect("granted before");
                granted.leave().map_or_else(|why| format!("error {why}"), |()| "left".into())
            }
            ["resume"] => {
                self.broker = None;
                let mut granted = std::mem::take(&mut self.granted);
                let resume = |one: &mut Granted| self.broker().resume(one);
                let answer = granted.values_mut().try_for_each(resume);
                self.granted = granted;
                answer.map_or_else(|why| format!("error {why}"), |()| "resumed".into())
            }
            ["disconnect"] => {
                self.broker = None;
                "disconnected".into()
            }
            ["fifo"] => {
                let tried = sched::set(thread::current(), Class::Fifo { priority: 10 });
                if tried.is_ok() { "yes".into() } else { "no".into() }
            }
            // Works `of_ten` of every ten milliseconds, `times` times.
            ["work", of_ten, times] => {
                for _ in 0..number(times) {
                    let until = clock::thread_cpu_time() + Service::from_millis(number(of_ten));
                    let next = clock::now() + Duration::from_millis(10);
                    while clock::thread_cpu_time() < until {}
                    clock::sleep_until(next.max(clock::now() + Duration::from_micros(100)));
                }
                "worked".into()
            }
            // Works without a pause for `ms` milliseconds.
            ["spin", ms] => {
                let until = clock::now() + Duration::from_millis(number(ms));
                while clock::now() < until {}
                "spun".into()
            }
            ["child"] => {
                let mut command = Command::new("sleep");
                die_with_parent(command.arg("60"));
                let child = command.spawn().expect("sleep is there");
                let id = child.id();
                self.children.push(child);
                id.to_string()
            }
            // Moves to any CPU, as any thread may.
            ["wander"] => {
                let all: Vec<usize> = (0..1_024).collect();
                let moved = thread::set_affinity(&all);
                moved.map_or_else(|why| format!("error {why}"), |()| "anywhere".into())
            }
            ["nice", value] => {
                let nice = number(value) as i32;
                let set = sched::set(thread::current(), Class::Other { nice });
                set.map_or_else(|why| format!("error {why}"), |()| "nice".into())
            }
            ["exec"] => {
                use std::os::unix::process::CommandExt as _;
                format!("error {}", Command::new("sleep").arg("60").exec())
            }
            ["events"] => {
                let mut events = Vec::new();
                let heard = self.broker().events(|_, event| events.push(format!("{event:?}")));
                format!("{heard:?} {}", events.join("; "))
            }
            ["ping"] => format!("{:?}", self.broker().ping().is_ok()),
            ["raw", ..] => {
                let bytes = line.strip_prefix("raw ").unwrap_or("").as_bytes().to_vec();
                self.raw(&bytes)
            }
            ["raw_long"] => self.raw(&vec![b' '; MAX_MESSAGE + 1]),
            ["raw_close"] => {
                self.raw = None;
                "closed".into()
            }
            // Sends requests without reading answers, until the broker cuts the connection.
            ["flood"] => {
                let socket = Socket::connect(&self.socket).expect("it runs");
                let mut sent = 0;
                let hello = br#"{"id":1,"ask":{"hello":{"version":1}}}"#;
                let _ = socket.send(hello);
                while sent < 1_000_000
                    && socket.send(br#"{"id":2,"ask":{"status":{"after":null}}}"#).is_ok()
                {
                    sent += 1;
                }
                format!("{}", sent < 1_000_000)
            }
            // Counts how many of `count` connections are accepted.
            ["crowd", count] => {
                let open = |_| Broker::connect_to(&self.socket).ok();
                let crowd: Vec<Broker> = (0..number(count)).filter_map(open).collect();
                crowd.len().to_string()
            }
            _ => panic!("{line}"),
        }
    }

    fn broker(&mut self) -> &mut Broker {
        let socket: &Path = &self.socket;
        self.broker.get_or_insert_with(|| {
            (0..500)
                .find_map(|_| {
                    let connected = Broker::connect_to(socket).ok();
                    if connected.is_none() {
                        clock::sleep(Duration::from_millis(10));
                    }
                    connected
                })
                .expect("the broker answers within five seconds")
        })
    }

    fn request(&mut self, want: &Want) -> String {
        let answer = self.broker().request(want);
        self.keep(answer)
    }

    fn keep(&mut self, answer: Result<Granted, RequestError>) -> String {
        match answer {
            Ok(granted) => {
                let id = granted.id().0;
                self.granted.insert(id, granted);
                format!("granted {id}")
            }
            Err(RequestError::Refused(refused)) => {
                let text = refused.to_string();
                self.refused = Some(refused);
                text
            }
            Err(other) => format!("error {other}"),
        }
    }

    /// Sends bytes on a connection of its own, which stays open.
    fn raw(&mut self, bytes: &[u8]) -> String {
        let socket =
            self.raw.get_or_insert_with(|| Socket::connect(&self.socket).expect("it runs"));
        if socket.send(bytes).is_err() {
            return "gone".into();
        }
        let mut buffer = vec![0; MAX_MESSAGE];
        match socket.receive(&mut buffer, true) {
            Ok(Received::Message(length)) => {
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            }
            other => format!("{other:?}"),
        }
    }
}
