//! No browser outlives its driver, however that ends.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use postroom_servers::{Durability, Kind, Server};
use rustix::process::{Pid, Signal, kill_process};

/// Opens a browser, and answers the folder of its profile.
fn open_browser(server: &Server) -> String {
    let address = server.url().trim_start_matches("http://");
    let wanted = r#"{"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args":
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]}}}}"#;
    let mut stream = TcpStream::connect(address).expect("the driver answers");
    let length = wanted.len();
    write!(
        stream,
        "POST /session HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{wanted}"
    )
    .expect("write");
    let mut answer = String::new();
    while !answer.contains("\"userDataDir\":\"") {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).expect("read");
        assert!(read > 0, "no browser: {answer}");
        answer.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    let (_, profile) = answer.split_once("\"userDataDir\":\"").expect("a profile");
    profile.split('"').next().expect("a folder").to_owned()
}

/// The processes whose command names the profile.
fn browsers(profile: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let commands = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains(profile)).collect()
}

fn driver() -> Server {
    Server::start(Kind::Chromium, Durability::Discarded).expect("a driver")
}

#[test]
fn a_driver_that_is_asked_to_end_takes_its_browsers_along() {
    let mut server = driver();
    let profile = open_browser(&server);
    assert!(!browsers(&profile).is_empty(), "{profile}");
    server.stop();
    assert_eq!(browsers(&profile), [""; 0]);
}

#[test]
fn a_driver_that_was_killed_leaves_no_browser_behind() {
    let server = driver();
    let profile = open_browser(&server);
    let pid = server.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("a driver");
    kill_process(pid, Signal::KILL).expect("a kill");
    assert!(!browsers(&profile).is_empty(), "it does not notice by itself: {profile}");
    drop(server);
    assert_eq!(browsers(&profile), [""; 0]);
}
