//! Drives a real browser over two pipes (the DevTools protocol). Chromium is not installed with the
//! tests. Without it they say so and do nothing.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest time that an answer may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It is closed when this value is dropped.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    /// The events that came without a request.
    pub(crate) events: Vec<Value>,
    next: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts it and opens a page. Returns `None` if there is no browser.
    pub(crate) fn start() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found = names.iter().find(|name| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|version| version.status.success())
        });
        let Some(program) = found else {
            println!("skipped: no chromium here; apt-get install chromium");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder");
        // The browser reads orders from descriptor 3 and answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1", "sh", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--remote-debugging-pipe", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let orders = child.stdin.take().expect("a pipe");
        let said = child.stdout.take().expect("a pipe");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(said).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, events) = (None, Vec::new());
        let mut browser =
            Self { child, orders, answers, session, events, next: 0, _profile: profile };
        let targets = browser.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().cloned().unwrap_or_default();
        let page = targets.iter().find(|target| target["type"] == "page").expect("a page");
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Accessibility", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut order = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let order = format!("{order}\0");
        self.orders.write_all(order.as_bytes()).expect("the browser listens");
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.next_message(until, method);
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        let until = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.next_message(until, "the page");
            self.events.push(message);
        }
    }

    fn next_message(&mut self, until: Instant, what: &str) -> Value {
        let left = until.saturating_duration_since(Instant::now());
        self.answers.recv_timeout(left).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Returns the value of an expression on the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            down["text"] = json!("\r");
        } else if key.chars().count() == 1 {
            down["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Sets the width of the screen and the colour scheme.
    pub(crate) fn screen(&mut self, width: u32, scheme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Returns errors and warnings of the console and of the policy, and anything that was fetched.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled") => true,
            Some("Network.requestWillBeSent") => !event["params"]["request"]["url"]
                .as_str()
                .is_some_and(|url| url.ends_with(".html")),
            _ => false,
        };
        self.events.iter().filter(is_complaint).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
