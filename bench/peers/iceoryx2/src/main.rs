//! Measures the transit time of a number from one thread to another through iceoryx2.
//!
//! Reads lines `spinning rounds` or `sleeping rounds`, and answers each with the nanoseconds that
//! `rounds` hand-offs, with there and back counted as two, took on the clock.

use std::io::{BufRead, Write};
use std::thread;
use std::time::Instant;

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

type Failed = Box<dyn std::error::Error>;

/// One direction's ends, each made in the thread that uses it.
struct Sends {
    publisher: Publisher<ipc::Service, u64, ()>,
    notifier: Notifier<ipc::Service>,
}

struct Receives {
    subscriber: Subscriber<ipc::Service, u64, ()>,
    listener: Listener<ipc::Service>,
}

impl Sends {
    fn new(node: &Node<ipc::Service>, name: &str) -> Result<Self, Failed> {
        let data = node.service_builder(&name.try_into()?).publish_subscribe::<u64>().open_or_create()?;
        let event = node.service_builder(&name.try_into()?).event().open_or_create()?;
        Ok(Self {
            publisher: data.publisher_builder().create()?,
            notifier: event.notifier_builder().create()?,
        })
    }

    fn send(&self, n: u64, wakes: bool) -> Result<(), Failed> {
        self.publisher.loan_uninit()?.write_payload(n).send()?;
        if wakes {
            self.notifier.notify()?;
        }
        Ok(())
    }
}

impl Receives {
    fn new(node: &Node<ipc::Service>, name: &str) -> Result<Self, Failed> {
        let data = node.service_builder(&name.try_into()?).publish_subscribe::<u64>().open_or_create()?;
        let event = node.service_builder(&name.try_into()?).event().open_or_create()?;
        Ok(Self {
            subscriber: data.subscriber_builder().create()?,
            listener: event.listener_builder().create()?,
        })
    }

    fn receive(&self, sleeps: bool) -> Result<u64, Failed> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                return Ok(*sample);
            }
            if sleeps {
                self.listener.blocking_wait_one()?;
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

fn hand_off(rounds: u64, sleeps: bool) -> Result<u128, Failed> {
    let name = |way: &str| format!("punctual-bench-{}-{way}", std::process::id());
    let (there, back) = (name("there"), name("back"));
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let (sends, receives) = (Sends::new(&node, &there)?, Receives::new(&node, &back)?);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let other = thread::spawn(move || {
        let echo = || -> Result<(), Failed> {
            let node = NodeBuilder::new().create::<ipc::Service>()?;
            let (receives, sends) = (Receives::new(&node, &there)?, Sends::new(&node, &back)?);
            ready.send(())?;
            for _ in 0..=rounds {
                sends.send(receives.receive(sleeps)?, sleeps)?;
            }
            Ok(())
        };
        echo().map_err(|why| why.to_string())
    });
    is_ready.recv()?;
    let round = |n| -> Result<(), Failed> {
        sends.send(n, sleeps)?;
        assert_eq!(receives.receive(sleeps)?, n);
        Ok(())
    };
    round(0)?;
    let start = Instant::now();
    for n in 1..=rounds {
        round(n)?;
    }
    let took = start.elapsed().as_nanos();
    other.join().expect("no panic")?;
    Ok(took)
}

fn main() -> Result<(), Failed> {
    set_log_level(LogLevel::Fatal);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (how, hand_offs) = line.split_once(' ').ok_or("how, and how many")?;
        println!("{}", hand_off(hand_offs.parse::<u64>()? / 2, how == "sleeping")?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
