use super::*;
use crate::watch::picture::Late;

fn press(state: State, code: KeyCode, picture: &Picture) -> State {
    state.press(KeyEvent::new(code, KeyModifiers::NONE), picture)
}

fn keys(codes: &[KeyCode], picture: &Picture) -> State {
    codes.iter().fold(State::default(), |state, code| press(state, *code, picture))
}

/// Three rows: `c` uses most of its grant, `a` was late most often, `b` has the longest latencies.
fn picture() -> Picture {
    let row = |number, name: &str, used, late, slack, latency| {
        let mut row =
            Row::new(Key::Grant(number), "reservation", name.to_owned(), "2ms/10ms".to_owned());
        (row.granted_ppm, row.used_ppm) = (Some(200_000), Some(used));
        (row.late, row.slack_ns, row.latencies) = (late, slack, vec![latency]);
        row
    };
    Picture {
        rows: vec![
            row(1, "b", 20_000, Some(1), Some(5), 900),
            row(2, "c", 190_000, None, None, 10),
            row(3, "a", 50_000, Some(7), Some(-3), 20),
        ],
        ..Picture::default()
    }
}

fn order(state: &State, picture: &Picture) -> String {
    state.sorted(picture).iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn s_goes_through_all_orders_and_r_turns_them_round() {
    let picture = picture();
    let mut state = State::default();
    let mut seen = Vec::new();
    for _ in Sort::ALL {
        seen.push((state.sort.name(), order(&state, &picture)));
        state = press(state, KeyCode::Char('s'), &picture);
    }
    let expected = [
        ("age", "bca"),
        ("name", "abc"),
        ("use", "cab"),
        ("slack", "abc"),
        ("late", "abc"),
        ("latency", "bac"),
    ];
    assert_eq!(seen, expected.map(|(sort, rows)| (sort, rows.to_owned())));
    assert_eq!(state.sort, Sort::Age);
    let state = press(state, KeyCode::Char('r'), &picture);
    assert_eq!(order(&state, &picture), "acb");
    assert_eq!(order(&press(state, KeyCode::Char('r'), &picture), &picture), "bca");
}

#[test]
fn arrows_and_letters_move_and_stop_at_the_ends() {
    let picture = picture();
    let chosen = |codes: &[KeyCode]| keys(codes, &picture).chosen;
    let (down, up) = (KeyCode::Down, KeyCode::Up);
    assert_eq!(chosen(&[]), None);
    assert_eq!(chosen(&[down]), Some(Key::Grant(2)));
    assert_eq!(chosen(&[KeyCode::Char('j'), KeyCode::Char('j')]), Some(Key::Grant(3)));
    assert_eq!(chosen(&[down, down, down, down]), Some(Key::Grant(3)));
    assert_eq!(chosen(&[down, down, KeyCode::Char('k')]), Some(Key::Grant(2)));
    assert_eq!(chosen(&[up]), Some(Key::Grant(1)));
    assert_eq!(chosen(&[KeyCode::End]), Some(Key::Grant(3)));
    assert_eq!(chosen(&[KeyCode::PageDown, KeyCode::PageUp]), Some(Key::Grant(1)));
    assert_eq!(chosen(&[KeyCode::End, KeyCode::Home]), Some(Key::Grant(1)));
}

#[test]
fn the_chosen_row_stays_chosen_when_the_order_changes_or_it_goes() {
    let mut picture = picture();
    let state = keys(&[KeyCode::Down, KeyCode::Char('s')], &picture);
    assert_eq!(
        (state.chosen, state.place(&state.sorted(&picture))),
        (Some(Key::Grant(2)), Some(2))
    );
    picture.rows.retain(|row| row.key != Key::Grant(2));
    assert_eq!(state.place(&state.sorted(&picture)), Some(0));
    picture.rows.clear();
    assert_eq!(state.place(&state.sorted(&picture)), None);
    // Keys do nothing on an empty list.
    assert_eq!(press(state.clone(), KeyCode::Enter, &picture).view, View::List);
    assert_eq!(press(state.clone(), KeyCode::Down, &picture), state);
}

#[test]
fn enter_opens_and_escape_closes() {
    let mut picture = picture();
    let late = Late { job: 1, tardiness_ns: 1, own_ns: 1, causes: Vec::new() };
    picture.rows[0].late_jobs = vec![late; 5];
    let open = keys(&[KeyCode::Enter], &picture);
    assert_eq!((open.view, open.chosen), (View::Detail, Some(Key::Grant(1))));
    let scrolled = press(press(open.clone(), KeyCode::End, &picture), KeyCode::Up, &picture);
    assert_eq!(usize::from(scrolled.scroll), details(&picture.rows[0]).len() - 2);
    assert_eq!(scrolled.chosen, open.chosen);
    for code in [KeyCode::Esc, KeyCode::Backspace, KeyCode::Left] {
        let closed = press(scrolled.clone(), code, &picture);
        assert_eq!((closed.view, closed.chosen), (View::List, open.chosen));
    }
    // A reopened detail begins at its first line.
    let again = press(press(scrolled, KeyCode::Esc, &picture), KeyCode::Enter, &picture);
    assert_eq!(again.scroll, 0);
}

#[test]
fn help_takes_the_keys_that_would_move_what_is_below() {
    let picture = picture();
    let help = keys(&[KeyCode::Char('?')], &picture);
    assert!(help.help);
    for code in [KeyCode::Down, KeyCode::Enter, KeyCode::Char('s'), KeyCode::Char('p')] {
        assert_eq!(press(help.clone(), code, &picture), help);
    }
    assert!(!press(help.clone(), KeyCode::Esc, &picture).help);
    assert!(!press(help.clone(), KeyCode::Char('?'), &picture).help);
    assert!(press(help, KeyCode::Char('q'), &picture).quit);
}

#[test]
fn it_pauses_and_quits_and_ignores_what_it_does_not_know() {
    let picture = picture();
    assert!(keys(&[KeyCode::Char('p')], &picture).paused);
    assert!(!keys(&[KeyCode::Char('p'), KeyCode::Char(' ')], &picture).paused);
    assert!(keys(&[KeyCode::Char('q')], &picture).quit);
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert!(State::default().press(control('c'), &picture).quit);
    for key in [control('s'), KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE)] {
        assert_eq!(State::default().press(key, &picture), State::default());
    }
    let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    release.kind = KeyEventKind::Release;
    assert_eq!(State::default().press(release, &picture), State::default());
}
