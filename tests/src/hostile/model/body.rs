//! Writes the bytes of a drawn message.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use punctual_linux::thread;

use super::action::{Body, GrantRequest, Id, Kind, ThreadChoice, Token, Wish};
use super::rogue::Rogue;

/// Writes a message, in which what the client knows at this moment replaces the drawn placeholders.
pub(super) fn bytes_of(body: &Body, rogue: &Rogue) -> Vec<u8> {
    let ask = match body {
        Body::Empty => return Vec::new(),
        Body::Garbage { bytes, seed } => {
            let mut garbage = vec![0; *bytes as usize];
            ChaCha8Rng::seed_from_u64(*seed).fill_bytes(&mut garbage);
            return garbage;
        }
        Body::Half { bytes } => {
            let mut whole = json!({"id": 1, "ask": {"status": {"after": null}}}).to_string();
            whole.truncate(*bytes as usize);
            return whole.into();
        }
        Body::Huge { bytes } => return vec![b' '; *bytes as usize],
        Body::Deep { levels } => return "[".repeat(*levels as usize).into(),
        Body::Hello { version } => json!({"hello": {"version": version}}),
        Body::Ping => json!("ping"),
        Body::Status { after } => json!({"status": {"after": after}}),
        Body::Channels { after } => json!({"channels": {"after": after}}),
        Body::Request(asked) => json!({"request": {"want": want(asked, rogue)}}),
        Body::Change { grant, want: asked } => {
            json!({"change": {"grant": id(*grant, rogue), "want": want(asked, rogue)}})
        }
        Body::Release { grant } => json!({"release": {"grant": id(*grant, rogue)}}),
        Body::Resume { grant, token } => {
            let token = match token {
                Token::Guessed(number) => format!("{number:032x}"),
                Token::Known => {
                    known(*grant, rogue).map_or_else(String::new, |(_, token)| token.clone())
                }
            };
            json!({"resume": {"grant": id(*grant, rogue), "token": token}})
        }
        Body::OpenChannel(wish) => json!({"open_channel": {"channel": channel(wish)}}),
        Body::ChangeChannel { grant, wish } => {
            json!({"change_channel": {"grant": id(*grant, rogue), "channel": channel(wish)}})
        }
        Body::Attach { grant, first: None } => {
            json!({"attach_channel": {"grant": id(*grant, rogue)}})
        }
        Body::Attach { grant, first: Some(first) } => {
            json!({"attach_channel": {"grant": id(*grant, rogue), "first": first}})
        }
        Body::Mapped { grant } => json!({"mapped_channel": {"grant": id(*grant, rogue)}}),
    };
    json!({"id": 9, "ask": ask}).to_string().into()
}

/// Returns a request for a hundredth of a CPU.
pub(super) fn a_little(thread: i32) -> Value {
    json!({"request": {"want": upcalls(thread, 1, 10_000, 20_000)}})
}

/// Returns a channel request.
pub(super) fn channel(wish: &Wish) -> Value {
    json!({
        "name": "hostile",
        "direction": if wish.receive { "receive" } else { "send" },
        "min_message": wish.bytes.min(1),
        "max_message": wish.bytes,
        "spacing_ns": wish.spacing_us.saturating_mul(1_000),
        "burst": wish.burst,
        "delay_bound_ns": wish.bound_us.map(|bound| bound.saturating_mul(1_000)),
        "address": format!("127.0.0.1:{}", wish.port),
        "framing": if wish.fragments { "fragments" } else { "datagram" },
        "too_early": if wish.burst.is_multiple_of(2) { "wait" } else { "lose" },
        "slots": wish.slots,
    })
}

fn want(asked: &GrantRequest, rogue: &Rogue) -> Value {
    let thread = match asked.thread {
        ThreadChoice::Own => thread::current().as_raw(),
        ThreadChoice::Leader => std::process::id() as i32,
        ThreadChoice::Init => 1,
        ThreadChoice::Parent => {
            rustix::process::getppid().map_or(1, |parent| parent.as_raw_nonzero().get())
        }
        ThreadChoice::Ended => rogue.ended_thread,
        ThreadChoice::Any(any) => any,
    };
    let period_ns = asked.period_us.saturating_mul(1_000);
    match asked.kind {
        Kind::Upcalls { count } => upcalls(thread, count, asked.ppm, asked.period_us),
        Kind::Reservation => {
            let budget_ns = u128::from(period_ns) * u128::from(asked.ppm) / 1_000_000;
            let budget_ns = u64::try_from(budget_ns).unwrap_or(u64::MAX);
            json!({"reservation": {
                "thread": thread, "budget_ns": budget_ns, "period_ns": period_ns,
            }})
        }
        Kind::Program { hard } => {
            let budget_ns = u128::from(period_ns) * u128::from(asked.ppm) / 1_000_000;
            let budget_ns = u64::try_from(budget_ns).unwrap_or(u64::MAX);
            json!({"program": {
                "thread": thread, "budget_ns": budget_ns, "period_ns": period_ns, "hard": hard,
            }})
        }
        Kind::Priority => json!({"priority": {"thread": thread, "share_ppm": asked.ppm}}),
    }
}

fn upcalls(thread: i32, count: u32, ppm: u64, period_us: u64) -> Value {
    let time = u128::from(period_us) * u128::from(ppm) / 1_000 / u128::from(count.max(1));
    let upcall = json!({
        "name": "u", "period_ns": period_us.saturating_mul(1_000), "batch": 1, "quantum": 1,
        "time_per_pdu_ns": u64::try_from(time).unwrap_or(u64::MAX),
    });
    json!({"upcalls": {"thread": thread, "upcalls": vec![upcall; count as usize]}})
}

fn known(grant: Id, rogue: &Rogue) -> Option<&(u64, String)> {
    match grant {
        Id::Known(at) => rogue.grants.get(at.checked_rem(rogue.grants.len())?),
        Id::Any(_) => None,
    }
}

fn id(grant: Id, rogue: &Rogue) -> u64 {
    match (grant, known(grant, rogue)) {
        (Id::Any(number), _) => number,
        (_, Some((number, _))) => *number,
        (Id::Known(_), None) => 1,
    }
}
