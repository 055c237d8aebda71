use super::*;

fn raw() -> RawChannel {
    let spacing = Duration::from_micros(294);
    let arrivals = LinearBounded::fixed(1_400, spacing, 3).expect("valid");
    let to = "192.0.2.7:4000".parse().expect("an address");
    let bound = Some(Duration::from_millis(5));
    RawChannel::from(&WantedChannel::sending("video", arrivals, bound, to))
}

#[test]
fn a_line_is_parsed_into_its_request() {
    let line = "100/s,delay=5ms,max=160,credits=high,too_early=lose";
    let asked: Compact = line.parse().expect("good");
    let to = "192.0.2.7:4000".parse().expect("an address");
    let want = WantedChannel::of_line("talk", &asked, to);
    let same = WantedChannel::sending("talk", asked.traffic, Some(asked.delay_bound), to);
    let same = same.with_credits(Sensitivity::Sensitive);
    assert_eq!(want, WantedChannel { too_early: TooEarly::Discard, ..same });
    let raw = RawChannel::from(&want);
    assert_eq!(WantedChannel::try_from(raw), Ok(want));
}

#[test]
fn a_channel_survives_the_wire() {
    let best_effort = RawChannel { delay_bound_ns: None, ..raw() };
    let in_pieces = RawChannel { framing: "fragments".into(), number: 7, ..raw() };
    let inwards = RawChannel { direction: "receive".into(), too_early: "lose".into(), ..raw() };
    let credits = RawChannel { credits: Some("high".into()), burst: 4, ..raw() };
    for raw in [raw(), best_effort, in_pieces, inwards, credits] {
        let want = WantedChannel::try_from(raw.clone()).expect("valid");
        assert_eq!(RawChannel::from(&want), raw);
        assert_eq!(want.geometry().slots(), 8);
        assert_eq!(want.channel().is_some(), raw.delay_bound_ns.is_some());
    }
}

#[test]
fn an_error_is_named_with_its_place() {
    for (raw, field) in [
        (RawChannel { name: "a\n".into(), ..raw() }, "name"),
        (RawChannel { direction: "up".into(), ..raw() }, "direction"),
        (RawChannel { max_message: 0, ..raw() }, "traffic"),
        (RawChannel { burst: 0, ..raw() }, "traffic"),
        (RawChannel { spacing_ns: 0, ..raw() }, "traffic"),
        (RawChannel { delay_bound_ns: Some(0), ..raw() }, "delay_bound_ns"),
        (RawChannel { address: "studio:1".into(), ..raw() }, "address"),
        (RawChannel { address: "192.0.2.7:0".into(), ..raw() }, "address"),
        (RawChannel { address: "224.0.0.1:9".into(), ..raw() }, "address"),
        (RawChannel { address: "[ff02::1]:9".into(), ..raw() }, "address"),
        (RawChannel { framing: "cells".into(), ..raw() }, "framing"),
        (RawChannel { too_early: "runs".into(), ..raw() }, "too_early"),
        (RawChannel { credits: Some("some".into()), ..raw() }, "credits"),
        (RawChannel { credits: Some("high".into()), ..raw() }, "burst"),
        (
            RawChannel {
                credits: Some("high".into()),
                burst: 4,
                direction: "receive".into(),
                ..raw()
            },
            "credits",
        ),
        (RawChannel { slots: 3, ..raw() }, "slots"),
        (RawChannel { slots: 2_048, ..raw() }, "slots"),
        (RawChannel { slots: 1_024, max_message: 1 << 20, ..raw() }, "slots"),
    ] {
        assert_eq!(WantedChannel::try_from(raw).expect_err(field).field, field);
    }
}
