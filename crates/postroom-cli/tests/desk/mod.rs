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

/// X17: a thousand clients that are slow in every way there is, and come again when they are sent
/// away. Everybody else is answered, and messages are delivered.
mod a_thousand_slow_clients {
    use std::io::ErrorKind;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use tokio::net::TcpSocket;
    use tokio::runtime::Runtime;

    use super::*;

    const SLOW: usize = 1_000;
    /// What the server has places for.
    const PLACES: usize = 512;

    /// Where to, and something large that everybody may have.
    struct Target {
        address: String,
        file: String,
    }

    impl Target {
        fn at(address: &str) -> Self {
            let (_, page) = get(address, "/login", "");
            let start = page.find("/assets/").expect("a style sheet");
            let file = page[start..].split('"').next().expect("an end").to_owned();
            Self { address: address.to_owned(), file }
        }
    }

    /// One that never ends its headers, sends its body by drops, or does not read the answers.
    /// Of the last kind there are more than places.
    fn connect(runtime: &Runtime, to: &Target, n: usize) -> std::io::Result<TcpStream> {
        let Target { address, file } = to;
        let to: SocketAddr = address.parse().expect("an address");
        let connecting = async {
            let socket = TcpSocket::new_v4()?;
            // What is not read has to wait on the other side.
            socket.set_recv_buffer_size(4_096)?;
            socket.connect(to).await?.into_std()
        };
        let mut stream = runtime.block_on(connecting)?;
        let begin = match n % 5 {
            0 => format!("GET /livez HTTP/1.1\r\nhost: {address}\r\nx-slow: "),
            1 => format!(
                "POST /login HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n\
                 content-type: application/x-www-form-urlencoded\r\n\
                 content-length: 9000\r\n\r\ntoken="
            ),
            _ => format!("GET {file} HTTP/1.1\r\nhost: {address}\r\n\r\n").repeat(20),
        };
        // Not more than fits: it does not block.
        match stream.write(begin.as_bytes()) {
            Ok(_) => Ok(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(stream),
            Err(error) => Err(error),
        }
    }

    /// Whether the other side still has it; it gets one more drop then.
    fn is_connected(stream: &mut TcpStream, n: usize) -> bool {
        // Who does not read sees the end only when it writes.
        let drop = stream.write(b"a");
        let open = |kind: ErrorKind| kind == ErrorKind::WouldBlock;
        if drop.is_err_and(|error| !open(error.kind())) {
            return false;
        }
        n % 5 > 1 || stream.read(&mut [0; 64]).is_err_and(|error| open(error.kind()))
    }

    /// All of them, as far as there are files for it.
    fn crowd(runtime: &Runtime, to: &Target) -> Vec<TcpStream> {
        let mut slow = Vec::with_capacity(SLOW);
        for n in 0..SLOW {
            match connect(runtime, to, n) {
                Ok(stream) => slow.push(stream),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(_) => break,
            }
        }
        assert!(slow.len() > PLACES, "only {} files", slow.len());
        // The others need some, too.
        slow.truncate(SLOW - 24);
        slow
    }

    #[cfg(target_os = "linux")]
    fn megabytes(pid: u32) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
    }

    #[cfg(not(target_os = "linux"))]
    fn megabytes(_: u32) -> Option<u64> {
        None
    }

    #[test]
    fn x17_keep_nobody_else_from_an_answer_and_no_message_from_its_delivery() {
        let folder = folder();
        let file = token_file(folder.path());
        let (up, address) = Up::with_desk(folder.path(), &["--token-file", &file]);
        until(&address, "/startupz", 200);
        let before = megabytes(up.child.id());
        let runtime = Runtime::new().expect("a runtime");
        let target = Target::at(&address);
        let mut slow = crowd(&runtime, &target);
        let (done, sent_away) = (AtomicBool::new(false), AtomicUsize::new(0));
        let mut took = Vec::new();
        std::thread::scope(|scope| {
            let (again, target, done, sent_away) = (&runtime, &target, &done, &sent_away);
            let slow = &mut slow;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for (n, stream) in slow.iter_mut().enumerate() {
                        if is_connected(stream, n) {
                            continue;
                        }
                        sent_away.fetch_add(1, Ordering::Relaxed);
                        if let Ok(another) = connect(again, target, n) {
                            *stream = another;
                        }
                    }
                }
            });
            // Even when something fails here, the others stop.
            let _stop = Stop(done);
            // Fewer than one person may ask at once.
            for n in 0..80 {
                let began = Instant::now();
                assert_eq!(get(&address, "/api/v1/stores", TOKEN).0, 200, "request {n}");
                assert_eq!(get(&address, "/livez", "").0, 200, "request {n}");
                took.push(began.elapsed() / 2);
                if n % 20 == 0 {
                    enqueue(folder.path(), "while.crowded");
                    assert_eq!(up.event()["type"], "while.crowded");
                }
            }
            // There were more than places, all of the time.
            let began = Instant::now();
            while sent_away.load(Ordering::Relaxed) < SLOW - PLACES - 24 {
                assert!(began.elapsed() < PATIENCE, "nobody was sent away");
                std::thread::yield_now();
            }
            assert_eq!(get(&address, "/livez", "").0, 200);
        });
        took.sort();
        let grown =
            megabytes(up.child.id()).zip(before).map(|(now, before)| now.saturating_sub(before));
        let [median, slowest] = [40, 79].map(|n| took[n]);
        eprintln!("median {median:?}, slowest {slowest:?}; {grown:?} MB more");
        assert!(grown.is_none_or(|grown| grown < 256), "{grown:?} MB more");
    }

    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
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
