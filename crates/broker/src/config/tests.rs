use punctual_model::FileError;

use super::*;
use punctual_client::want::Kind;

fn parse(text: &str) -> Result<Config, FileError> {
    Config::parse("broker.toml", text.as_bytes())
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn the_users_own_quota_comes_before_that_of_a_group_and_the_default() {
    let config = parse(
        r#"
        [host]
        reservable = "80%"
        cpus = 2
        [default]
        share = "5%"
        [[user]]
        name = "root"
        share = "150%"
        queue_memory = "2MiB"
        least_reservation = "0.01%"
        allow = ["reservations"]
        [[group]]
        gid = 29
        share = "20%"
        together = "40%"
        "#,
    )
    .expect("valid");
    assert_eq!((config.cpus, config.reservable_ppm), (Some(2), Some(800_000)));
    let root = config.quotas.of(0, &[29]).quota;
    assert_eq!((root.share_ppm, root.max_grants), (1_500_000, 16));
    assert_eq!(root.queue_memory, 2 << 20);
    assert_eq!(root.least_reservation_ppm, 100);
    assert_eq!(root.allow, [Kind::Reservation].into());
    let audio = config.quotas.of(1_000, &[1_000, 29]);
    assert_eq!((audio.quota.share_ppm, audio.quota.together_ppm), (200_000, Some(400_000)));
    assert_eq!((audio.group, audio.quota.queue_memory), (Some(29), 64 << 20));
    assert_eq!(audio.quota.least_reservation_ppm, 4_000);
    assert_eq!(config.quotas.of(1_000, &[1_000]).quota.share_ppm, 50_000);
}

#[test]
fn an_error_is_named_with_its_place() {
    for (text, place, says) in [
        ("[default]\nshar = \"5%\"", (2, 1), "did you mean `share`?"),
        ("[default]\nshare = \"5\"", (2, 9), "%"),
        ("[default]\nqueue_memory = \"5\"", (2, 16), "MiB"),
        ("[default]\nallow = [\"upcall\"]", (2, 10), "did you mean \"upcalls\"?"),
        ("[host]\nreservable = \"100%\"", (2, 14), "95 %"),
        ("[host]\ncontext_switch = \"5ms\"", (2, 18), "more than 1ms"),
        ("[host]\nupcalls = \"both\"", (2, 11), "choose auto, level-order or fixed-level"),
        ("[host]\ncpus = 0", (2, 8), "from 1"),
        ("[broker]\ngrace = \"2 days\"", (2, 9), "2 days"),
        ("[broker]\nsample = \"1ns\"", (2, 10), "not from 10ms"),
        ("[[user]]\nname = \"no such user here\"", (2, 8), "there is no user"),
        ("[[user]]\nuid = -1", (2, 7), "no uid"),
        ("[[user]]\nuid = 1\nname = \"root\"", (3, 8), "not both"),
        ("[[group]]\nshare = \"1%\"", (1, 1), "applies to no group"),
        (
            "[channels]\nlink = \"1gbit/s\"\nearly_discard = \"bpf\"",
            (3, 17),
            "choose xdp or filter",
        ),
        ("[channels]\nlink = \"1gbit/s\"\nper_packet_received = \"9\"", (3, 23), "has no unit"),
        ("[channels]\nlink = \"1gbit/s\"\nper_packet_received = \"0s\"", (3, 23), "at least 1ns"),
        ("[channels]\nlink = \"1gbit/s\"\nper_packet = \"0s\"", (3, 14), "at least 1ns"),
        ("[channels]\nlink = \"1gbit/s\"\nawake = \"yes\"", (3, 9), "boolean"),
        ("[channels]\nlink = \"1gbit/s\"\nearly_discard = \"xdp\"", (3, 17), "`interface`"),
        ("= 1", (1, 1), ""),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.line, error.column), place, "{error}");
        assert!(error.problem.contains(says), "{error}");
    }
    assert!(Config::parse("broker.toml", b"a = \xff").is_err());
    assert!(Config::parse("broker.toml", &vec![b' '; MAX_CONFIG + 1]).is_err());
}

#[test]
fn packet_costs_are_as_configured_else_as_measured_in_each_direction() {
    let micros = Service::from_micros;
    let of = |text: &str, leaving: Option<Service>, coming: Option<Service>| {
        let config = parse(&format!("[channels]\nlink = \"1gbit/s\"\n{text}")).expect("valid");
        let mut channels = config.channels.expect("channels");
        channels.take_measured(leaving, coming);
        (channels.per_packet, channels.received_packet())
    };
    let (both, received) = ("per_packet = \"30us\"", "per_packet_received = \"9us\"");
    let (leaving, coming) = (Some(micros(17)), Some(micros(5)));
    assert_eq!(of("", None, None), (micros(40), micros(40)));
    assert_eq!(of("", leaving, None), (micros(17), micros(17)), "as one that leaves");
    assert_eq!(of("", None, coming), (micros(40), micros(5)));
    assert_eq!(of("", leaving, coming), (micros(17), micros(5)));
    assert_eq!(of(both, leaving, coming), (micros(30), micros(30)));
    assert_eq!(of(received, leaving, coming), (micros(17), micros(9)));
    assert_eq!(of(&format!("{both}\n{received}"), leaving, coming), (micros(30), micros(9)));
}
