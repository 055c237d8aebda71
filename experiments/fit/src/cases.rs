//! The programs, and their known periods and demands.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A program with its known period and demand.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The origin of the program.
    pub(crate) of: &'static str,
    pub(crate) words: Vec<String>,
    /// The name of the thread under study; by default the one that needs the most.
    pub(crate) thread: Option<String>,
    /// The period in milliseconds, or `None` if the program is not periodic.
    pub(crate) period: Option<f64>,
    /// The accepted error in percent, where the period follows not from the program's text but from
    /// its behaviour.
    pub(crate) within: f64,
    /// The processor time of a period in milliseconds, where it is known.
    pub(crate) needs: Option<f64>,
}

const OURS: &str = "this study";
const RT_APP: &str = "rt-app's examples";
const DEBIAN: &str = "Debian";

/// Returns all cases. Files that they read are made in `folder`.
pub(crate) fn all(punctual: &Path, folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    let this = env::current_exe().unwrap_or_default();
    // The kernel's name, at most 15 bytes.
    let name = this.file_name().unwrap_or_default().to_string_lossy();
    let ours: String = name.chars().take(15).collect();
    let this = this.display().to_string();
    for (which, period, within, needs) in [
        ("absolute", Some(10.0), 1.0, Some(2.0)),
        ("fast", Some(1.0), 1.0, Some(0.2)),
        // The period includes sleep, work and the wake-up latency.
        ("relative", Some(23.0), 10.0, Some(3.0)),
        // Both fall into one period now and then.
        ("two", Some(10.0), 1.0, Some(3.0)),
        ("bursts", Some(40.0), 1.0, Some(1.5)),
        ("woken", Some(8.0), 1.0, Some(1.0)),
        ("missing", Some(10.0), 1.0, Some(1.0)),
        ("random", None, 0.0, None),
        ("spinner", None, 0.0, None),
    ] {
        let words = [&this, "program", which].map(ToOwned::to_owned).to_vec();
        let thread = Some(ours.clone());
        cases.push(Case { name: which, of: OURS, words, thread, period, within, needs });
    }
    for (name, file, thread, period, within, needs) in [
        ("rt-app 1", "tutorial/example1.json", "thread0", 100.0, 5.0, 20.0),
        ("rt-app 2", "tutorial/example2.json", "thread0", 100.0, 1.0, 10.0),
        ("rt-app mp3 tick", "mp3-short.json", "AudioTick", 6.0, 1.0, 0.0),
        ("rt-app mp3 out", "mp3-short.json", "AudioOut", 30.0, 1.0, 5.0),
    ] {
        let Some(file) = longer(file, folder) else { continue };
        let words = vec!["rt-app".to_owned(), file.display().to_string()];
        let needs = Some(needs).filter(|&needs| needs > 0.0);
        let (thread, period) = (Some(thread.to_owned()), Some(period));
        cases.push(Case { name, of: RT_APP, words, thread, period, within, needs });
    }
    for (name, words, thread, period, within) in [
        ("cyclictest", "cyclictest -q -t1 -i 5000 -p 40", Some("cyclictest"), 5.0, 1.0),
        ("jackd", "jackd --no-realtime -d dummy -r 48000 -p 256", None, 256.0 / 48.0, 1.0),
        ("ping", "ping -q -i 0.02 127.0.0.1", Some("ping"), 20.0, 3.0),
        ("top", "top -b -d 0.2", Some("top"), 200.0, 5.0),
        ("watch", "watch -p -n 0.2 true", Some("watch"), 200.0, 5.0),
        ("vmstat", "vmstat 1", Some("vmstat"), 1000.0, 2.0),
        ("stress-ng", "stress-ng --timerfd 1 --timerfd-freq 200 --timerfd-fds 1", None, 5.0, 1.0),
        (
            "ffmpeg",
            "ffmpeg -v quiet -re -f lavfi -i testsrc=rate=25:size=320x240 -f null -",
            None,
            40.0,
            3.0,
        ),
    ] {
        let words = words.split(' ').map(str::to_owned).collect();
        let (thread, period) = (thread.map(str::to_owned), Some(period));
        cases.push(Case { name, of: DEBIAN, words, thread, period, within, needs: None });
    }
    let tty = |name: &str| folder.join(name).display().to_string();
    let program = punctual.with_file_name("punctual-modem");
    let words = vec![program.display().to_string(), "--pair".to_owned()];
    let words = words.into_iter().chain([tty("modem-a"), tty("modem-b")]).collect();
    cases.push(Case {
        name: "soft modem",
        of: "punctual-modem",
        words,
        thread: None,
        period: Some(20.0),
        within: 1.0,
        needs: None,
    });
    cases
}

/// Copies an example of rt-app so that it runs long enough, writes nothing, and is not calibrated
/// first.
fn longer(file: &str, folder: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(Path::new("/usr/share/doc/rt-app/examples").join(file)).ok()?;
    let mut longer = String::new();
    for line in text.lines() {
        let key = line.trim().trim_start_matches('"').split('"').next().unwrap_or_default();
        longer += match key {
            "duration" => "\"duration\" : 120,",
            "ftrace" => "\"ftrace\" : false,",
            "lock_pages" => "\"lock_pages\" : false,",
            // Nanoseconds of a loop. Measuring them would take seconds at each start, and would not
            // be nearer to what a run takes.
            "calibration" => "\"calibration\" : 20,",
            _ => line,
        };
        longer.push('\n');
    }
    let path = folder.join(file.replace('/', "-"));
    fs::write(&path, longer).ok()?;
    Some(path)
}
