//! The dashboard beside the relay: admin API, pages, health and metrics.
//!
//! It has a thread and connections of its own. Whatever is asked of it, deliveries keep theirs.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use postroom::fleet::MemberStatus;
use postroom_admin::{Access, Admin, Databases, Exporter, Person, Role, SinkState, Token};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::crowd::{Crowd, Line, Seat};
use super::shown::Change;
use crate::args::AdminArgs;
use crate::config::{AdminSettings, Listen, least_token};
use crate::failure::{Exit, Failure};

/// Whoever does not say what they want within this time is not waited for.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Each one is a file, and the relay needs some.
const MOST_CONNECTIONS: usize = 512;

/// What one connection may keep of a request's head, or of an answer that is not read yet.
const MOST_BUFFERED: usize = 64 * 1024;

/// How long answers may take when it is told to stop. Streams never end by themselves.
const GRACE: Duration = Duration::from_secs(1);

/// A place to listen at that may be used, and who is let in there.
pub(super) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    settings: AdminSettings,
}

impl Door {
    /// The door that the command line and the file want; none when they want none, or when nobody
    /// asked for this one and it is taken.
    pub(super) fn open(
        args: &AdminArgs,
        from_file: &AdminSettings,
    ) -> Result<Option<Self>, Failure> {
        let settings = combine(args, from_file)?;
        let Listen::At(address) = settings.listen.unwrap_or_default() else { return Ok(None) };
        let access = access(address.ip(), &settings)?;
        let listener = match TcpListener::bind(address) {
            Ok(listener) => listener,
            Err(error) if settings.listen.is_none() => {
                eprintln!(
                    "no dashboard: {address} can not be used ({error}); --listen names another"
                );
                return Ok(None);
            }
            Err(error) => {
                let what = format!("can not listen on {address}");
                let next = "--listen names another address, or off";
                return Err(Failure::new(Exit::Error, what).why(&error).next(next));
            }
        };
        let bound = listener.set_nonblocking(true).and_then(|()| listener.local_addr());
        let address = bound.map_err(|error| {
            Failure::new(Exit::Error, format!("can not listen on {address}")).why(&error)
        })?;
        Ok(Some(Self { listener, address, access, settings }))
    }

    /// Lets people in. The databases are made on its own thread, so that their connections belong
    /// there.
    pub(super) fn serve(
        self,
        mut shown: mpsc::UnboundedReceiver<Change>,
        exporter: Exporter,
        sinks: impl Fn() -> Vec<SinkState> + Send + Sync + 'static,
        members: impl Fn() -> Vec<MemberStatus> + Send + Sync + 'static,
    ) -> Result<Serving, Failure> {
        let no_thread = |error: std::io::Error| {
            Failure::new(Exit::Error, "can not start the dashboard").why(&error)
        };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name("postroom-admin").enable_all().build();
        let runtime = runtime.map_err(no_thread)?;
        let Self { listener, address, access, settings } = self;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(no_thread)?
        };
        let base_path = settings.base_path.clone();
        let stop = CancellationToken::new();
        let until = stop.clone();
        let body = async move {
            let databases = Databases::default();
            show_what_there_is(&databases, &mut shown);
            tokio::spawn(keep_showing(databases.clone(), shown));
            let render = exporter.clone();
            let router = Admin::new(databases, access)
                .read_only(settings.read_only)
                .base_path(&settings.base_path)
                .trust_forwarded_prefix(settings.trust_proxy)
                .trust_forwarded_for(settings.trust_proxy)
                .thresholds(settings.thresholds)
                .sinks(sinks)
                .members(members)
                .metrics(move || render.render())
                .public_metrics(settings.public_metrics)
                .shutdown(until.clone())
                .router();
            // A proxy in front may take the path away, or leave it.
            let router = match settings.base_path.trim_end_matches('/') {
                "" => router,
                path => Router::new().nest(path, router.clone()).fallback_service(router),
            };
            tokio::spawn(exporter.upkeep());
            accept(listener, router, until).await;
        };
        let thread = std::thread::Builder::new().name("postroom-admin".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(body);
            runtime.shutdown_background();
        });
        eprintln!("dashboard: http://{address}{}/", base_path.trim_end_matches('/'));
        Ok(Serving { stop, thread: thread.map_err(no_thread)? })
    }
}

/// At once, so that the first one who looks sees it.
fn show_what_there_is(databases: &Databases, shown: &mut mpsc::UnboundedReceiver<Change>) {
    while let Ok(change) = shown.try_recv() {
        apply(databases, change);
    }
}

async fn keep_showing(databases: Databases, mut shown: mpsc::UnboundedReceiver<Change>) {
    while let Some(change) = shown.recv().await {
        apply(&databases, change);
    }
}

fn apply(databases: &Databases, change: Change) {
    match change {
        Change::Show(database) => databases.add(database()),
        Change::Hide(id) => _ = databases.remove(id.as_str()),
    }
}

/// A dashboard that people may look at.
pub(super) struct Serving {
    stop: CancellationToken,
    thread: JoinHandle<()>,
}

impl Serving {
    /// Ends it; answers that are under way have a moment.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        let thread = self.thread;
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }
}

async fn accept(listener: tokio::net::TcpListener, router: Router, stop: CancellationToken) {
    let (crowd, open) = (Crowd::of(MOST_CONNECTIONS), TaskTracker::new());
    loop {
        let next = async {
            let Ok((stream, address)) = listener.accept().await else {
                // Out of files, most likely: there has to be one less.
                crowd.send_one_away();
                tokio::time::sleep(Duration::from_millis(100)).await;
                return None;
            };
            Some((crowd.enter().await, stream, address))
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = next => accepted,
        };
        if let Some((seat, stream, address)) = accepted {
            let service = TowerToHyperService::new(router.clone());
            open.spawn(attend(seat, stream, address, service, stop.clone()));
        }
    }
    open.close();
    open.wait().await;
}

/// Answers what one client asks, until it leaves or its place is needed.
async fn attend(
    seat: Seat,
    stream: TcpStream,
    address: SocketAddr,
    service: TowerToHyperService<Router>,
    stop: CancellationToken,
) {
    let caller = seat.caller();
    let answer = service_fn(|request: hyper::Request<Incoming>| {
        let mut request = request.map(|body| caller.asks(body));
        request.extensions_mut().insert(ConnectInfo(address));
        let answer = service.call(request);
        async move { Ok::<_, Infallible>(answer.await?.map(|body| caller.answered(body))) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MOST_BUFFERED);
    let connection = http.serve_connection(TokioIo::new(Line::new(stream, caller)), answer);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = seat.is_needed() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(GRACE, connection).await;
}

/// What the command line says goes before the file.
fn combine(args: &AdminArgs, from_file: &AdminSettings) -> Result<AdminSettings, Failure> {
    let mut settings = from_file.clone();
    settings.listen = args.listen.or(settings.listen);
    settings.read_only |= args.read_only;
    settings.behind_tls |= args.behind_tls;
    if let Some(path) = &args.base_path {
        if !path.starts_with('/') {
            let what = "--base-path begins with a slash, such as /postroom";
            return Err(Failure::new(Exit::Invalid, what));
        }
        settings.base_path.clone_from(path);
    }
    if let Some(file) = &args.token_file {
        settings.tokens.push(token_of(file)?);
    }
    Ok(settings)
}

fn token_of(file: &Path) -> Result<Token, Failure> {
    let bad = |what: String| {
        let next = "`openssl rand -hex 32 > FILE` makes one";
        Failure::new(Exit::Invalid, format!("--token-file {}: {what}", file.display())).next(next)
    };
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    match least_token(text.trim()) {
        Some(why) => Err(bad(why)),
        None => {
            let person = Person { name: "admin".to_owned(), role: Role::Admin, payloads: true };
            Ok(Token::new(text.trim(), person))
        }
    }
}

/// Who is let in. Where others can knock there is a lock, and nobody can listen at the door: X01.
fn access(address: IpAddr, settings: &AdminSettings) -> Result<Access, Failure> {
    let refused = |what: &str, next: &str| {
        let what = format!("others can reach {address}: {what}");
        Err(Failure::new(Exit::Invalid, what).next(next))
    };
    if !address.is_loopback() {
        if settings.tokens.is_empty() {
            let next = "give --token-file FILE, or [admin] tokens in the file; or listen on \
                        127.0.0.1; `openssl rand -hex 32 > FILE` makes a token";
            return refused("the dashboard needs a token there", next);
        }
        if !settings.behind_tls {
            let next = "put a proxy with TLS in front and say --behind-tls, or behind_tls = true \
                        under [admin]; or listen on 127.0.0.1";
            return refused("tokens would cross the network in the clear", next);
        }
    }
    Ok(match settings.tokens.is_empty() {
        true => Access::local(),
        false => Access::Tokens(settings.tokens.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::new("x", Person { name: "a".to_owned(), role: Role::Viewer, payloads: false })
    }

    #[test]
    fn x01_who_listens_for_others_needs_a_token_and_tls() {
        let of = |address: &str, tokens: usize, behind_tls: bool| {
            let tokens = std::iter::repeat_with(token).take(tokens).collect();
            let settings = AdminSettings { tokens, behind_tls, ..AdminSettings::default() };
            access(address.parse().expect("an address"), &settings)
        };
        for open in ["0.0.0.0", "192.168.1.7", "::", "10.0.0.1"] {
            assert!(of(open, 0, false).is_err(), "{open}");
            assert!(of(open, 0, true).is_err(), "TLS is no lock");
            assert!(of(open, 1, false).is_err(), "a lock that everybody hears the key of");
            assert!(matches!(of(open, 1, true), Ok(Access::Tokens(_))));
        }
        for here in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert!(matches!(of(here, 0, false), Ok(Access::Open(_))), "{here}");
            assert!(matches!(of(here, 1, false), Ok(Access::Tokens(_))), "{here}");
        }
    }

    #[test]
    fn x01_a_token_that_can_be_guessed_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "short\n").expect("written");
        let refused = token_of(&file).expect_err("too short");
        assert!(refused.what().contains("at least 16 characters; this one has 5"), "{refused:?}");
        std::fs::write(&file, format!("{}\n", "a".repeat(32))).expect("written");
        assert!(token_of(&file).is_ok());
        assert!(token_of(&folder.path().join("none")).is_err());
    }
}
