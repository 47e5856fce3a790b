//! What a test may do to a server of its own.

use std::net::TcpStream;

use postroom_servers::{Durability, Kind, Server};

fn accepts(server: &Server) -> bool {
    let address = server.url().rsplit_once("://").expect("a URL").1;
    let address = address.split('/').next().expect("an address");
    TcpStream::connect(address.rsplit('@').next().expect("a host")).is_ok()
}

fn is_killed_and_started_again(kind: Kind) {
    let mut server = Server::start(kind, Durability::Discarded).expect("a server");
    let url = server.url().to_owned();
    assert!(accepts(&server));
    server.kill();
    assert!(!accepts(&server));
    server.start_again().expect("the same server");
    assert_eq!(server.url(), url);
    assert!(accepts(&server));
    server.stop();
    assert!(!accepts(&server));
}

#[test]
fn nats_is_killed_and_started_again() {
    is_killed_and_started_again(Kind::Nats);
}

#[test]
fn rabbitmq_is_killed_and_started_again() {
    is_killed_and_started_again(Kind::RabbitMq);
}

#[test]
fn redis_is_killed_and_started_again() {
    is_killed_and_started_again(Kind::Redis);
}
