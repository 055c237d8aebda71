//! Tests of the routes of channels.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{SENDING, parse, refusal};
use crate::Duration;
use crate::channel::{Direction, Framing, Policing, Sensitivity, TooEarly, Traffic};

/// Writes a channel of 1 KiB messages with `keys`.
fn channel(name: &str, keys: &str) -> String {
    format!(
        "[[channel]]\nname = \"{name}\"\nmax_message = \"1KiB\"\nmin_inter_arrival = \"10ms\"\n\
         delay_bound = \"5ms\"\n{keys}\n"
    )
}

#[test]
fn a_channel_sends_unless_it_says_otherwise() {
    let plain = channel("plain", "");
    let sends = channel(
        "sends",
        "direction = \"send\"\ndestination = \"192.0.2.7:4000\"\nframing = \"fragments\"\n\
         too_early = \"lose\"",
    );
    let receives = channel("receives", "direction = \"receive\"\nlisten = \"[::]:4000\"");
    let rest = "[[channel]]\nname = \"rest\"\nclass = \"ubr\"\npeak_rate = \"1mbit/s\"\n\
                max_sdu = \"8KiB\"\ndirection = \"receive\"\n";
    let contract = parse(&format!("{SENDING}{plain}{sends}{receives}{rest}")).expect("good");

    let names: Vec<&str> = contract.channels.iter().map(|channel| channel.name()).collect();
    assert_eq!((names, contract.best_effort.len()), (["plain", "sends"].to_vec(), 0));
    let [receives, rest] = &contract.receiving[..] else { panic!("two receive") };
    assert_eq!(receives.delay_bound, Some(Duration::from_millis(5)));
    assert!(matches!(receives.traffic, Traffic::Bounded(_)));
    assert_eq!((rest.name.as_str(), rest.delay_bound), ("rest", None));

    let routes: Vec<_> = contract
        .routes
        .iter()
        .map(|route| {
            let address = route.address.as_ref().map(ToString::to_string);
            (route.channel.as_str(), route.direction, address, route.framing, route.too_early)
        })
        .collect();
    let (there, here) = (Some("192.0.2.7:4000".to_string()), Some("[::]:4000".to_string()));
    let (send, receive) = (Direction::Send, Direction::Receive);
    let wanted = [
        ("plain", send, None, Framing::Datagram, TooEarly::Wait),
        ("sends", send, there, Framing::Fragments, TooEarly::Discard),
        ("receives", receive, here, Framing::Datagram, TooEarly::Wait),
        ("rest", receive, None, Framing::Fragments, TooEarly::Wait),
    ];
    assert_eq!(routes, wanted);
}

#[test]
fn a_contract_that_only_receives_needs_no_link() {
    let receives = channel("r", "direction = \"receive\"\nframing = \"datagram\"");
    let contract = parse(&receives).expect("good");
    assert!(contract.sender.is_none() && contract.channels.is_empty());
    assert_eq!(contract.receiving.len(), 1);
    let silent = channel("r", "direction = \"receive\"");
    assert!(
        refusal(&silent).contains("c.toml:2:8: channel \"r\" does not say how its messages come")
    );
    assert!(refusal(&channel("s", "")).contains("write [sending]"));
    let both = format!("{receives}{}", channel("s", ""));
    assert!(refusal(&both).contains("write [sending]"));
}

/// Credits let a burst pass at a border, and the channel is admitted for it in either form.
#[test]
fn credits_say_the_burst() {
    let bursts = [("high", 4), ("medium", 20), ("low", 100)];
    for (word, burst) in bursts {
        let keys = format!("policing = \"credits\"\nsensitivity = \"{word}\"");
        let of_a_class = |class: &str| {
            format!(
                "[[channel]]\nname = \"{class}\"\nclass = \"{class}\"\npeak_rate = \"7mbit/s\"\n\
                 sustained_rate = \"{}\"\nmax_sdu = \"8191B\"\ndelay_bound = \"5ms\"\n{keys}\n",
                if class == "cbr" { "7mbit/s" } else { "3mbit/s" }
            )
        };
        let text = format!(
            "{SENDING}{}{}{}",
            channel("c", &keys),
            of_a_class("cbr"),
            of_a_class("rt-vbr")
        );
        let contract = parse(&text).expect("good");
        for channel in &contract.channels {
            assert_eq!(channel.arrivals().max_burst(), burst, "{}", channel.name());
        }
        let sensitivity = Sensitivity::NAMES.iter().find(|(name, _)| *name == word);
        let (_, sensitivity) = sensitivity.expect("a name");
        for route in &contract.routes {
            assert_eq!(route.policing, Policing::Credits(*sensitivity));
        }
    }
    let plain =
        parse(&format!("{SENDING}{}", channel("c", "policing = \"credits\""))).expect("good");
    assert_eq!(plain.routes[0].policing, Policing::Credits(Sensitivity::Usual));
    let gcra = parse(&format!("{SENDING}{}", channel("c", ""))).expect("good");
    assert_eq!(gcra.routes[0].policing, Policing::Gcra);
}

#[test]
fn errors_have_their_place() {
    let large = |keys: &str| channel("c", keys).replace("1KiB", "5000B");
    let jumbo = "[sending]\nbandwidth = \"1gbit/s\"\npacket = \"65500B\"\n";
    for (text, wanted) in [
        (
            channel("c", "direction = \"recieve\""),
            "c.toml:6:13: unknown direction \"recieve\"; choose send or receive",
        ),
        (channel("c", "destinatoin = \"a:1\""), "did you mean `destination`?"),
        (
            format!("{SENDING}{}", channel("c", "listen = \"[::]:1\"")),
            "c.toml:9:10: channel \"c\" sends, so it has no listen; write destination",
        ),
        (
            channel("c", "direction = \"receive\"\ndestination = \"a:1\""),
            "c.toml:7:15: channel \"c\" receives, so it has no destination",
        ),
        (
            channel("c", "direction = \"receive\"\ntoo_early = \"lose\""),
            "c.toml:7:13: channel \"c\" receives, so it has no too_early",
        ),
        (
            channel("c", "direction = \"receive\"\npolicing = \"gcra\""),
            "c.toml:7:12: channel \"c\" receives, so it has no policing",
        ),
        (
            format!("{SENDING}{}", channel("c", "policing = \"tokens\"")),
            "c.toml:9:12: unknown policing \"tokens\"; choose gcra or credits",
        ),
        (
            format!("{SENDING}{}", channel("c", "sensitivity = \"low\"")),
            "c.toml:9:15: channel \"c\" has a sensitivity, which is the length of a control interval",
        ),
        (
            format!("{SENDING}{}", channel("c", "policing = \"credits\"\nsensitivity = \"none\"")),
            "c.toml:10:15: unknown sensitivity \"none\"; choose high, medium or low",
        ),
        (
            format!("{SENDING}{}", channel("c", "policing = \"credits\"\nmax_burst = 3")),
            "c.toml:10:13: channel \"c\" is policed by credits for 10 messages, of which 20 may pass at \
             once; remove max_burst",
        ),
        (
            format!("{SENDING}{}", channel("c", "destination = \"192.0.2.7\"")),
            "c.toml:9:15: destination \"192.0.2.7\" has no port; write host:port",
        ),
        (
            format!("{SENDING}{}", channel("c", "destination = \"::1:80\"")),
            "c.toml:9:15: destination \"::1:80\" looks like an IPv6 address without brackets",
        ),
        (
            format!("{SENDING}{}", channel("c", "too_early = \"drop\"")),
            "c.toml:9:13: unknown too_early \"drop\"; choose wait or lose",
        ),
        (
            format!("{SENDING}{}", large("framing = \"datagram\"")),
            "c.toml:9:11: channel \"c\" may send messages of 5000B, which are more than a packet of \
             4096B; choose fragments",
        ),
        (
            format!("{jumbo}{}", channel("c", "framing = \"fragments\"\ndestination = \"a:1\"")),
            "c.toml:9:11: channel \"c\" would need datagrams of 65532B; a datagram has at most \
             65507B",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.contains(wanted), "{text}\n gave {message}\n wanted {wanted}");
    }
    // A channel that is only admitted may have any size.
    assert!(parse(&format!("{jumbo}{}", channel("c", "framing = \"fragments\""))).is_ok());
}
