use super::*;

/// Starts a server on a socket of its own; its thread ends with the test process.
fn serving() -> std::path::PathBuf {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let path = folder.join("http.sock");
    let listener = UnixListener::bind(&path).expect("ours");
    thread::spawn(move || serve(listener.into(), |_| "a 1\n".to_owned()).map(drop));
    path
}

fn ask(path: &std::path::Path) -> String {
    let mut stream = UnixStream::connect(path).expect("it listens");
    let mut said = String::new();
    // A client that is turned away may be cut off while it sends.
    let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
    let _ = asked.and_then(|()| stream.read_to_string(&mut said));
    said
}

#[test]
fn silent_clients_do_not_block_others_for_long() {
    let path = serving();
    assert!(ask(&path).ends_with("\r\n\r\na 1\n"));
    // All places are taken by clients that send nothing, or never finish.
    let mut slow: Vec<UnixStream> =
        (0..MOST).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    let begun = clock::now();
    let mut turned_away = 0_u32;
    loop {
        for one in &mut slow {
            // Small pieces gain no time, since the limit is for the whole request. It may be over
            // already.
            let _ = one.write(b"G");
        }
        let said = ask(&path);
        if said.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 503"), "{said}");
        turned_away += 1;
        assert!(clock::now().saturating_since(begun) < Duration::from_secs(60), "{said}");
        clock::sleep(Duration::from_millis(20));
    }
    assert!(turned_away > 0, "the places were taken");
    std::fs::remove_dir_all(path.parent().expect("its folder")).expect("ours");
}
