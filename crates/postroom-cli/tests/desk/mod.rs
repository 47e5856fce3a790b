//! The dashboard beside the relay: who gets in, and what health and metrics say.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use postroom_servers::{Durability, Kind, Server};

use super::{PATIENCE, Up, enqueue, postroom};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

impl Up {
    /// Starts it with a dashboard on some free port, and gives the address.
    fn with_desk(folder: &Path, arguments: &[&str]) -> (Self, String) {
        let up = Self::with(folder, &[&["--listen", "127.0.0.1:0"], arguments].concat());
        let url = up.says("dashboard: http://");
        let address = url.split('/').next().expect("a host").to_owned();
        (up, address)
    }
}

/// The status and the body of an answer.
fn get(address: &str, path: &str, token: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let authorization = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\n{authorization}connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.unwrap_or_default())
}

/// Asks until it is answered so; the answer before the last is told when it never is.
fn until(address: &str, path: &str, expected: u16) -> String {
    let began = Instant::now();
    loop {
        let (status, body) = get(address, path, "");
        if status == expected {
            return body;
        }
        assert!(began.elapsed() < PATIENCE, "{path} says {status} {body}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn token_file(folder: &Path) -> String {
    let file = folder.join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("written");
    file.display().to_string()
}

/// What it says when it does not start, and its exit code.
fn refused(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let ended = postroom(folder).arg("up").args(arguments).output().expect("the binary runs");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn rly_1_a_relay_without_configuration_has_health_metrics_and_a_dashboard() {
    let folder = folder();
    let (mut up, address) = Up::with_desk(folder.path(), &[]);
    until(&address, "/startupz", 200);
    enqueue(folder.path(), "order.placed");
    assert_eq!(up.event()["type"], "order.placed");
    let ready = until(&address, "/readyz?verbose", 200);
    assert!(ready.contains("[+]database postroom ok\n"), "{ready}");
    assert!(ready.contains("[+]sink sink ok\n"), "{ready}");
    assert_eq!(get(&address, "/livez", ""), (200, "healthy\n".to_owned()));
    let delivered =
        r#"postroom_delivered_total{store="postroom",queue="outbox",topic="order.placed"} 1"#;
    let began = Instant::now();
    loop {
        let (status, metrics) = get(&address, "/metrics", "");
        assert_eq!(status, 200);
        if metrics.contains(delivered) {
            assert!(metrics.contains(r#"postroom_sink_up{sink="sink",kind="stdout"} 1"#));
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{metrics}");
    }
    // A reader that never ends does not keep it from stopping.
    let mut open = TcpStream::connect(&address).expect("it listens");
    open.write_all(b"GET /livez HTTP/1.1\r\n").expect("sent");
    up.signal("-TERM");
    assert_eq!(up.child.wait().expect("it ends").code(), Some(0));
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}

#[test]
fn x01_it_does_not_start_where_others_can_reach_it_without_a_token_and_tls() {
    let folder = folder();
    let file = token_file(folder.path());
    let (code, told) = refused(folder.path(), &["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("needs a token") && told.contains("--token-file"), "{told}");
    let (code, told) = refused(folder.path(), &["--listen", "[::]:0", "--token-file", &file]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("in the clear") && told.contains("--behind-tls"), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
    let config = folder.path().join("open.toml");
    let text = "[admin]\nlisten = \"0.0.0.0:0\"\n[sinks.a.stdout]\n\
                [[routes]]\ntopics = \"*\"\nsink = \"a\"";
    std::fs::write(&config, text).expect("written");
    let config = config.display().to_string();
    let (code, told) = refused(folder.path(), &["--config", &config]);
    assert_eq!((code, told.contains("needs a token")), (Some(2), true), "{told}");
}

#[test]
fn x01_with_a_token_only_who_has_it_sees_more_than_the_status() {
    let folder = folder();
    let file = token_file(folder.path());
    let arguments = ["--token-file", &file, "--base-path", "/postroom"];
    let (_up, address) = Up::with_desk(folder.path(), &arguments);
    until(&address, "/startupz", 200);
    assert_eq!(get(&address, "/metrics", "").0, 401);
    assert_eq!(get(&address, "/metrics", "wrong").0, 401);
    assert_eq!(get(&address, "/metrics", TOKEN).0, 200);
    assert_eq!(get(&address, "/postroom/metrics", TOKEN).0, 200, "where a proxy leaves the path");
    assert_eq!(get(&address, "/readyz?verbose", ""), (200, "healthy\n".to_owned()));
    assert!(get(&address, "/readyz?verbose", TOKEN).1.contains("[+]database"));
}

#[test]
fn rly_1_an_address_that_was_asked_for_has_to_work() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, told) = refused(folder.path(), &["--listen", &address]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&format!("can not listen on {address}")), "{told}");
    let (code, told) = refused(folder.path(), &["--listen", "everywhere"]);
    assert_eq!(code, Some(2), "{told}");
}

#[test]
fn rly_1_a_default_port_that_is_taken_is_not_the_end() {
    let folder = folder();
    // Whoever has it, we or somebody else, it is taken.
    let _taken = TcpListener::bind("127.0.0.1:7878");
    let up = Up::with(folder.path(), &[]);
    assert!(up.says("no dashboard: 127.0.0.1:7878").contains("--listen"));
    enqueue(folder.path(), "a");
    assert_eq!(up.event()["type"], "a");
}

/// X17: whoever connects and says nothing, or little, keeps nobody else from an answer.
#[test]
fn x17_clients_that_say_nothing_are_not_waited_for() {
    let folder = folder();
    let (up, address) = Up::with_desk(folder.path(), &[]);
    until(&address, "/startupz", 200);
    let mut slow: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(&address).ok()).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        if n % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nhost: ").expect("sent");
        }
    }
    assert_eq!(get(&address, "/livez", "").0, 200);
    enqueue(folder.path(), "a");
    assert_eq!(up.event()["type"], "a");
    // They are sent away in the end.
    let stream = slow.first_mut().expect("one of them");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_ok(), "it is still waited for");
}

mod postgres_away {
    use super::*;

    /// OBS-4: a server that is killed turns the relay unready, and back; it stays alive meanwhile.
    #[test]
    fn obs_4_a_database_that_is_killed_is_seen_and_so_is_its_return() {
        let mut server = Server::start(Kind::Postgres, Durability::Real).expect("PostgreSQL");
        let folder = folder();
        let url = server.url().to_owned();
        let migrated = postroom(folder.path()).args(["--url", &url, "migrate"]).output();
        assert!(migrated.expect("the binary runs").status.success());
        let (up, address) = Up::with_desk(folder.path(), &["--url", &url]);
        until(&address, "/readyz", 200);
        server.kill();
        let told = until(&address, "/readyz?verbose", 503);
        assert!(told.contains("[-]database"), "{told}");
        assert_eq!(get(&address, "/livez", "").0, 200, "a restart would not help");
        let (_, metrics) = get(&address, "/metrics", "");
        let away = metrics.lines().filter(|line| line.starts_with("postroom_store_up{"));
        assert!(away.clone().count() > 0 && away.clone().any(|line| line.ends_with(" 0")));
        server.start_again().expect("PostgreSQL");
        until(&address, "/readyz", 200);
        drop(up);
    }
}
