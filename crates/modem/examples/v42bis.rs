//! V.42bis as a filter: compresses octets as a modem would, and decompresses them.
//!
//! `cargo run --release -p punctual-modem --example v42bis -- encode <FILE >CODED`, or `decode`.

use std::io::{Read, Write, stdin, stdout};

use punctual_modem::v42bis::{Decoder, Encoder, Sizes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut octets, mut made) = (Vec::new(), Vec::new());
    stdin().read_to_end(&mut octets)?;
    match std::env::args().nth(1).as_deref() {
        Some("encode") => {
            let mut encoder = Encoder::new(Sizes::default());
            octets.iter().for_each(|&octet| encoder.put(octet, |coded| made.push(coded)));
            encoder.flush(|coded| made.push(coded));
        }
        Some("decode") => {
            let mut decoder = Decoder::new(Sizes::default());
            for octet in &octets {
                decoder.put(*octet, |string| made.extend_from_slice(string))?;
            }
        }
        _ => return Err("say encode or decode".into()),
    }
    stdout().write_all(&made)?;
    eprintln!("{} octets to {}", octets.len(), made.len());
    Ok(())
}
