//! A browser by the WebDriver protocol: the dozen calls that the tests need.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// How long a page may take to show what a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The protocol's name for the identity of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A window of a browser of its own.
pub(crate) struct Browser {
    address: String,
    session: String,
    is_open: bool,
}

impl Browser {
    /// # Panics
    /// Without `POSTROOM_TEST_CHROMIUM_URL`: a test that needs a browser fails without one.
    pub(crate) async fn open(dark: bool, width: u32, height: u32) -> Self {
        let url = std::env::var("POSTROOM_TEST_CHROMIUM_URL")
            .expect("POSTROOM_TEST_CHROMIUM_URL; `cargo xtask servers` prints it");
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            // It ends with its driver, however that ends: the pipe between them breaks.
            "--remote-debugging-pipe".to_owned(),
            "--disable-lcd-text".to_owned(),
            "--disable-font-subpixel-positioning".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        arguments.extend(dark.then(|| "--blink-settings=preferredColorScheme=0".to_owned()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let answer = request(&address, "POST", "/session", Some(&wanted)).await;
        let session = answer["sessionId"].as_str().expect("a session").to_owned();
        let browser = Self { address, session, is_open: true };
        // The window includes what is around the page; the page itself is to have this size.
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false
        });
        browser.chrome("Emulation.setDeviceMetricsOverride", metrics).await;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.chrome("Emulation.setEmulatedMedia", features).await;
        browser
    }

    async fn chrome(&self, command: &str, params: Value) -> Value {
        self.post("/goog/cdp/execute", json!({"cmd": command, "params": params})).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        request(&self.address, "POST", &path, Some(&body)).await
    }

    async fn get(&self, path: &str) -> Value {
        let path = format!("/session/{}{path}", self.session);
        request(&self.address, "GET", &path, None).await
    }

    pub(crate) async fn goto(&self, url: &str) {
        self.post("/url", json!({"url": url})).await;
    }

    pub(crate) async fn url(&self) -> String {
        self.get("/url").await.as_str().expect("a url").to_owned()
    }

    /// The value of an expression in the page.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.post("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// What the page has that is too faint to be read or seen, by the limits of WCAG AA.
    pub(crate) async fn faint(&self) -> Vec<String> {
        let script = include_str!("contrast.js");
        let found = self.post("/execute/sync", json!({"script": script, "args": []})).await;
        assert!(found["measured"].as_u64() >= Some(5), "nothing was measured: {found}");
        let faint = found["faint"].as_array().cloned().unwrap_or_default();
        faint.iter().map(|what| what.as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The text of the first element that fits, or nothing.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let selector = json!(selector);
        let text = self.eval(&format!("document.querySelector({selector})?.innerText ?? ''")).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks as a person does: where the element is, if nothing lies over it.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.element(selector).await;
        self.post(&format!("/element/{element}/click"), json!({})).await;
    }

    pub(crate) async fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.post(&format!("/element/{element}/value"), json!({"text": text})).await;
    }

    /// Keys for the page itself.
    pub(crate) async fn press(&self, keys: &str) {
        self.type_into("body", keys).await;
    }

    async fn element(&self, selector: &str) -> String {
        let found =
            self.post("/element", json!({"using": "css selector", "value": selector})).await;
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector}: {found}")).to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let start = Instant::now();
        while self.eval(expression).await != true {
            if start.elapsed() > PATIENCE {
                let page = self.text("body").await;
                panic!("{expression} did not come true at {}:\n{page}", self.url().await);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page says something.
    pub(crate) async fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        let is_there = format!("(document.querySelector({selector})?.innerText ?? '')");
        self.until(&format!("{is_there}.includes({text})")).await;
    }

    /// What the browser complained about since the last time it was asked.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({"type": "browser"})).await;
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// A picture of the page, or of its part that the window shows.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        let picture = self.get("/screenshot").await;
        STANDARD.decode(picture.as_str().expect("a picture")).expect("base64")
    }

    pub(crate) async fn close(mut self) {
        let path = format!("/session/{}", self.session);
        self.is_open = false;
        request(&self.address, "DELETE", &path, None).await;
    }
}

impl Drop for Browser {
    /// A test that fails leaves no browser behind.
    fn drop(&mut self) {
        use std::io::{Read as _, Write as _};
        if !self.is_open {
            return;
        }
        let Self { address, session, .. } = self;
        let Ok(mut stream) = std::net::TcpStream::connect(&*address) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = write!(stream, "DELETE /session/{session} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let _ = stream.read(&mut [0; 64]);
    }
}

/// The value of an answer.
///
/// # Panics
/// When the driver says no: with what it says.
async fn request(address: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address).await.expect("the driver answers");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("write");
    stream.write_all(body.as_bytes()).await.expect("write");
    let answer = read_answer(&mut stream).await;
    let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert!(answer["value"]["error"].is_null(), "{method} {path}: {}", answer["value"]["message"]);
    answer["value"].take()
}

/// The body of an answer; the driver keeps connections open, whatever it is asked.
async fn read_answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    loop {
        let read = stream.read_buf(&mut answer).await.expect("read");
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(start) = end {
            let head = String::from_utf8_lossy(&answer[..start]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|text| text.trim().parse().ok()).expect("a length");
            if answer.len() >= start + length {
                return answer[start..start + length].to_vec();
            }
        }
        assert!(read > 0, "the driver hung up");
    }
}
