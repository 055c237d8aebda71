//! A program that asks the service as desktop programs do, and does what it is told.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration as Time, Instant};

use punctual_client::Broker;
use punctual_client::wire::Holder;
use punctual_linux::thread;
use rustix::process::{Resource, Rlimit, setrlimit};
use zbus::zvariant::{OwnedValue, Value};
use zbus::{Connection, Message, Result};

const NAME: &str = "org.freedesktop.RealtimeKit1";
const PATH: &str = "/org/freedesktop/RealtimeKit1";

/// Obeys commands on standard input until it is closed.
pub(crate) fn obey() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut connected = None;
    let us = thread::current().as_raw();
    say(&format!("ready {us}"));
    loop {
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line).expect("a line") == 0 {
            return;
        }
        let line = line.trim_end();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let told = |answer: Result<Message>| match answer {
            Ok(_) => "ok".to_owned(),
            Err(zbus::Error::MethodError(name, text, _)) => {
                format!("{name}: {}", text.unwrap_or_default())
            }
            Err(why) => why.to_string(),
        };
        if words[0] == "impersonate" {
            say(&impersonate(words[1], number(2) as i32, number(3)));
            continue;
        }
        let bus: &Connection = connected
            .get_or_insert_with(|| runtime.block_on(Connection::system()).expect("the test's bus"));
        let call = |method: &str, body: Value<'_>| {
            let Value::Structure(body) = body else { panic!("arguments are a structure") };
            told(runtime.block_on(bus.call_method(Some(NAME), PATH, Some(NAME), method, &body)))
        };
        match words[0] {
            "realtime" => {
                limit_running();
                let body = (us.unsigned_abs() as u64, number(1) as u32);
                say(&call("MakeThreadRealtime", Value::from(body)));
            }
            "limit" => {
                limit_running();
                say("limited");
            }
            "realtime-with" => {
                let body = (number(1), number(2), 10_u32);
                say(&call("MakeThreadRealtimeWithPID", Value::from(body)));
            }
            // Another thread, which is given a priority and ends on the next command.
            "thread" => {
                limit_running();
                let (sender, receiver) = std::sync::mpsc::channel();
                let (ends, ended) = std::sync::mpsc::channel::<()>();
                let thread = std::thread::spawn(move || {
                    sender.send(thread::current().as_raw().unsigned_abs()).expect("heard");
                    let _ = ended.recv();
                });
                let id = u64::from(receiver.recv().expect("it lives"));
                say(&call("MakeThreadRealtime", Value::from((id, 10_u32))));
                std::io::stdin().read_line(&mut String::new()).expect("a line");
                drop(ends);
                thread.join().expect("it ends");
                say("ended");
            }
            "nice" => {
                let nice: i32 = words[1].parse().expect("a number");
                let body = (us.unsigned_abs() as u64, nice);
                say(&call("MakeThreadHighPriority", Value::from(body)));
            }
            "property" => {
                let of = (NAME, words[1]);
                let get = bus.call_method(
                    Some(NAME),
                    PATH,
                    Some("org.freedesktop.DBus.Properties"),
                    "Get",
                    &of,
                );
                let answer = runtime.block_on(get).expect("it answers");
                let value: OwnedValue = answer.body().deserialize().expect("a value");
                say(&format!("{:?}", *value));
            }
            // Uses this many milliseconds of every twenty, for so many milliseconds.
            "work" => {
                let (busy, until) = (Time::from_millis(number(1)), Time::from_millis(number(2)));
                let begun = Instant::now();
                while begun.elapsed() < until {
                    let woken = Instant::now();
                    while woken.elapsed() < busy {}
                    std::thread::sleep(Time::from_millis(20).saturating_sub(busy));
                }
                say("worked");
            }
            _ => panic!("{line}"),
        }
    }
}

/// Asks the broker for another process.
fn impersonate(broker: &str, pid: i32, start: u64) -> String {
    let patience = Time::from_secs(10);
    match Broker::connect_for(Path::new(broker), patience, Holder { pid, start }) {
        Ok(_) => "ok".into(),
        Err(why) => why.to_string(),
    }
}

/// Limits the time for which this process runs without sleeping, as clients of rtkit do.
fn limit_running() {
    let limit = Rlimit { current: Some(200_000), maximum: Some(200_000) };
    setrlimit(Resource::Rttime, limit).expect("lower");
}

fn say(what: &str) {
    println!("> {what}");
    std::io::stdout().flush().expect("piped");
}
