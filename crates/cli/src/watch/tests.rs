//! Compares frames as text with reviewed ones (watch/frames/*.txt).

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::draw::{frame, text};
use super::look::Look;
use super::picture::{Key, Late, Picture, Row};
use super::state::State;

/// A row of each kind: well, near its limit, late, not observed, and with control characters in its
/// name.
fn picture() -> Picture {
    let grant = |number, kind, name: &str, what: &str, granted, used| {
        let mut row = Row::new(Key::Grant(number), kind, name.to_owned(), what.to_owned());
        (row.granted_ppm, row.used_ppm) = (Some(granted), used);
        row
    };
    let mut audio = grant(1, "reserve", "audio", "2ms/10ms", 200_000, Some(120_000));
    (audio.jobs, audio.late, audio.slack_ns) = (Some(120), Some(0), Some(7_250_000));
    audio.latencies = (0..120).map(|n| 12_000 + n % 7 * 3_000).collect();
    audio.facts = vec![("grant", "1".into()), ("thread", "4711 of process 4700, user 1000".into())];
    let mut video =
        grant(2, "upcalls", "video", "\"scaler\" 8ms every 40ms", 200_000, Some(196_000));
    (video.cpu, video.jobs, video.late) = (Some(1), Some(2_400), Some(3));
    (video.slack_ns, video.cause) = (Some(-1_250_000), Some("softirq".into()));
    video.latencies = vec![40_000, 55_000, 1_400_000, 38_000];
    let late = |job, tardiness_ns| Late {
        job,
        tardiness_ns,
        own_ns: 8_100_000,
        causes: vec![
            (tardiness_ns - 100_000, "softirq NET_RX".into()),
            (100_000, "its own work, beyond what was declared".into()),
        ],
    };
    video.late_jobs = vec![late(2_391, 1_250_000), late(1_007, 400_000)];
    video.facts = vec![("late by", "2 softirq, 1 own".into())];
    let evil = grant(3, "prio", "a\u{1b}[2J\u{202e}b", "lowest priority", 100_000, Some(150_000));
    let mut phone = Row::new(
        Key::Grant(4),
        "channel",
        "phone".into(),
        "160 B every 20ms to 192.0.2.7:4000".into(),
    );
    (phone.jobs, phone.late, phone.slack_ns) = (Some(9_000), Some(0), Some(3_100_000));
    phone.cause = Some("too early".into());
    let thread = Row::new(Key::Thread(99), "thread", "sh".into(), "thread 99 of process 99".into());
    Picture {
        host: vec!["62.0% of 180.0% granted on 2 CPUs, 4 grants, 12 refused".into()],
        notes: Vec::new(),
        rows: vec![audio, video, evil, phone, thread],
    }
}

fn pressed(codes: &[KeyCode], picture: &Picture) -> State {
    codes.iter().fold(State::default(), |state, code| {
        state.press(KeyEvent::new(*code, KeyModifiers::NONE), picture)
    })
}

/// Compares a frame with its file. With `PUNCTUAL_BLESS` set, writes the file instead, for review.
fn is_as_looked_at(name: &str, frame: &Buffer) {
    let file = format!("{}/src/watch/frames/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let is = text(frame);
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        return std::fs::write(&file, is).expect("it can be written");
    }
    let was = std::fs::read_to_string(&file).expect("there is a file for each frame");
    assert!(is == was, "{name} was:\n{was}\nand is:\n{is}");
}

fn is_coloured(frame: &Buffer) -> bool {
    frame.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
}

#[test]
fn frames_are_as_they_were_looked_at_with_colours_and_without() {
    use KeyCode::{Char, Down, Enter};
    let whole = picture();
    let mut noted = picture();
    noted.notes = vec!["/run/punctual/broker.sock: no broker answers".into()];
    let empty = Picture { host: vec!["0.0% of 180.0% granted".into()], ..Picture::default() };
    let detail = [Down, Enter];
    let sorted = [Char('s'), Char('s'), Char('s'), Char('s'), Char('p')];
    let all: [(&str, &Picture, &[KeyCode]); 6] = [
        ("list", &whole, &[]),
        ("sorted-by-late-and-paused", &whole, &sorted),
        ("detail", &whole, &detail),
        ("help", &whole, &[Char('?')]),
        ("without-broker", &noted, &[Down]),
        ("nothing", &empty, &[]),
    ];
    for (name, picture, keys) in all {
        let state = pressed(keys, picture);
        for size in [(80, 24), (120, 40)] {
            let plain = frame(picture, &state, Look::of(false), size);
            is_as_looked_at(&format!("{name}-{}x{}", size.0, size.1), &plain);
            let coloured = frame(picture, &state, Look::of(true), size);
            // Colours add nothing that the words do not say.
            assert_eq!(text(&coloured), text(&plain));
            assert!(is_coloured(&coloured) && !is_coloured(&plain), "{name}");
        }
    }
}

#[test]
fn any_size_can_be_drawn() {
    let picture = picture();
    for columns in (1..200).step_by(7) {
        for rows in (1..60).step_by(5) {
            for keys in [&[][..], &[KeyCode::Enter], &[KeyCode::Char('?')]] {
                let state = pressed(keys, &picture);
                let _ = frame(&picture, &state, Look::of(true), (columns, rows));
            }
        }
    }
    let small = text(&frame(&picture, &State::default(), Look::of(false), (40, 9)));
    assert!(small.contains("too small"), "{small}");
}

#[test]
fn a_long_list_is_scrolled_to_the_chosen_row() {
    let mut picture = picture();
    picture.rows = (0..500)
        .map(|n| Row::new(Key::Thread(n), "thread", format!("worker-{n}"), String::new()))
        .collect();
    let state = pressed(&[KeyCode::End], &picture);
    let shown = text(&frame(&picture, &state, Look::of(false), (80, 24)));
    assert!(shown.contains("> worker-499") && !shown.contains("worker-0"), "{shown}");
}
