//! A headless browser, told what to do over its debugging pipe (the Chrome DevTools Protocol).

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// How long an answer of the browser, or a page, may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// The debugging pipe is at descriptors 3 and 4. No sandbox, since tests may run as root and every page is our own.
const START: &str = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions \
                     --disable-background-networking --no-first-run --hide-scrollbars --user-data-dir=\"$1\" \
                     --remote-debugging-pipe about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    profile: PathBuf,
    session: Option<String>,
    calls: u64,
    /// What was asked of any host.
    pub requested: Vec<String>,
    /// What went wrong on a page.
    pub faults: Vec<String>,
}

/// Where pictures are left, and the note of what was skipped.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser");
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// axe-core, if `.ci/packages` or somebody else has installed it.
pub fn axe() -> Option<String> {
    let home = std::env::var_os("HOME")?;
    let file = ".cache/copyrator/axe-core/node_modules/axe-core/axe.min.js";
    fs::read_to_string(Path::new(&home).join(file)).ok()
}

/// Says that a part of a story was not tried, here and at the end of `make test`.
pub fn skip(what: &str, reason: &str) {
    println!("SKIPPED {what}: {reason}");
    let file = folder().join("skipped.txt");
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, format!("{before}{what}: {reason}\n")).expect("the note can be left");
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// This machine has none, or it does not answer.
    pub fn start() -> Result<Browser, String> {
        let in_path = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let program = ["chromium", "google-chrome"].into_iter().find(in_path);
        let program = program.ok_or("there is no chromium (apt-get install chromium)")?;
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let profile = folder().join(format!("profile-{}-{number}", std::process::id()));
        let mut child = Command::new("sh")
            .args(["-c", START, program])
            .arg(&profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (to, said) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (told, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(said).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if told.send(message).is_err() {
                    break;
                }
            }
        });
        let (requested, faults) = (Vec::new(), Vec::new());
        let mut browser = Browser { child, to, from, profile, session: None, calls: 0, requested, faults };
        let target = browser.try_call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.try_call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.try_call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{call}\0").as_bytes()).map_err(|error| format!("{method}: {error}"))?;
        loop {
            let message = self.from.recv_timeout(PATIENCE);
            let message = message.map_err(|_| format!("the browser does not answer {method}"))?;
            if message["id"] == self.calls {
                return match message["error"].is_null() {
                    true => Ok(message["result"].clone()),
                    false => Err(format!("{method}: {}", message["error"])),
                };
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requested.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            Some("Runtime.exceptionThrown") => self.faults.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.faults.push(params["entry"].to_string());
            }
            _ => {}
        }
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).expect("the browser does as it is told")
    }

    /// Opens an address, and waits until all of it is there.
    #[track_caller]
    pub fn go(&mut self, address: &str) {
        let gone = self.call("Page.navigate", json!({ "url": address }));
        assert!(gone["errorText"].is_null(), "{address}: {gone}");
        self.until("document.readyState === 'complete'");
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&mut self) {
        self.eval("window.isOld = true");
        self.call("Page.reload", json!({}));
        self.until("!window.isOld && document.readyState === 'complete'");
    }

    /// The value of an expression on the page; nothing while a page gives way to another.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.try_call("Runtime.evaluate", params).unwrap_or_default();
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        // A page that gives way to another has no body for a moment.
        let asked = format!("(() => {{ try {{ return {expression} }} catch {{ return false }} }})()");
        while self.eval(&asked) != true {
            if begun.elapsed() > PATIENCE {
                let seen = self.eval("location.href + ' ' + document.body?.innerText");
                panic!("{expression}: seen instead: {seen}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key.
    #[track_caller]
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => (0, key),
        };
        let mut event = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            event["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Presses Tab until an expression about what has the focus is true.
    #[track_caller]
    pub fn tab_to(&mut self, expression: &str) {
        for _ in 0..60 {
            self.press("Tab");
            if self.eval(&format!("(at => {expression})(document.activeElement)")) == true {
                return;
            }
        }
        panic!("Tab does not lead there: {expression}");
    }

    /// Shows the page so wide, and light or dark.
    #[track_caller]
    pub fn show(&mut self, width: u32, is_dark: bool) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// A picture of what is seen.
    #[track_caller]
    pub fn picture(&mut self, name: &str) {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap_or_default()).expect("a picture");
        fs::write(folder().join(format!("{name}.png")), bytes).expect("it can be kept");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its helpers may still write there.
        let _ = fs::remove_dir_all(&self.profile);
    }
}
