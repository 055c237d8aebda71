use super::*;

#[test]
fn a_line_is_read_with_its_defaults() {
    let asked: Compact = "40mbit/s,delay=5ms".parse().expect("good");
    // 1420 bytes at 40 Mbit/s.
    let spacing = Duration::from_nanos(284_000);
    assert_eq!(asked.traffic, LinearBounded::new(1, 1_420, spacing, 1).expect("valid"));
    assert_eq!((asked.delay_bound, asked.destination), (Duration::from_millis(5), None));
    let asked: Compact =
        "100/s, burst=3, min=20, max=2kB, delay=1ms, dest=[::1]:9".parse().expect("good");
    let spacing = Duration::from_millis(10);
    assert_eq!(asked.traffic, LinearBounded::new(20, 2_000, spacing, 3).expect("valid"));
    assert_eq!(asked.destination.map(|to| to.to_string()), Some("[::1]:9".to_owned()));
    assert_eq!((asked.policing, asked.too_early), (Policing::Gcra, TooEarly::Wait));
}

#[test]
fn credits_bring_the_burst_that_they_let_pass() {
    let asked: Compact = "100/s,delay=5ms,credits=medium,too_early=lose".parse().expect("good");
    assert_eq!(asked.policing, Policing::Credits(Sensitivity::Usual));
    assert_eq!((asked.traffic.max_burst(), asked.too_early), (20, TooEarly::Discard));
}

#[test]
fn a_line_is_written_so_that_it_means_the_same() {
    for line in [
        "40mbit/s,delay=5ms",
        "29.97/s,delay=1s,max=1MiB,burst=7,dest=studio.example:1",
        "1bit/s,delay=3ns,max=1,min=1",
        "100/s,delay=5ms,credits=high",
        "100/s,delay=5ms,too_early=lose,credits=low,dest=[::1]:9",
    ] {
        let asked: Compact = line.parse().expect(line);
        assert_eq!(asked.to_string().parse(), Ok(asked), "{line}");
    }
}

#[test]
fn errors_name_the_wrong_part() {
    for (line, words) in [
        ("", "empty part"),
        ("40mbit/s,,delay=5ms", "empty part"),
        ("delay=5ms", "no rate"),
        ("40mbit/s", "no delay bound"),
        ("40mb/s,delay=5ms", "40mb/s"),
        ("0bit/s,delay=5ms", "the rate: \"0bit/s\" is zero"),
        ("40mbit/s,delay=5", "has no unit"),
        ("40mbit/s,delay=0ms", "delay bound is zero"),
        ("40mbit/s,delay=5ms,delay=6ms", "delay twice"),
        ("40mbit/s,delay=5ms,fast", "\"fast\""),
        ("40mbit/s,delay=5ms,to=1.2.3.4:5", "unknown part"),
        ("40mbit/s,delay=5ms,burst=0", "burst"),
        ("40mbit/s,delay=5ms,credits=2", "one of high, medium, low"),
        ("40mbit/s,delay=5ms,credits=high,burst=4", "let 4 messages pass at once"),
        ("40mbit/s,delay=5ms,too_early=dies", "one of wait, lose"),
        ("40mbit/s,delay=5ms,max=4KB", "ambiguous"),
        ("40mbit/s,delay=5ms,max=8GiB", "max"),
        ("40mbit/s,delay=5ms,max=0", "max"),
        ("40mbit/s,delay=5ms,max=10,min=11", "smallest message"),
        ("40mbit/s,delay=5ms,dest=192.0.2.7", "dest"),
        ("1bit/s,delay=5ms,max=1MiB", "between 1ns and a day"),
    ] {
        let why = line.parse::<Compact>().expect_err(line).to_string();
        assert!(why.contains(words), "{line}: {why}");
    }
}
