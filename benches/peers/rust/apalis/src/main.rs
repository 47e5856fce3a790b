//! apalis, on PostgreSQL and on SQLite.

mod postgres;
mod sqlite;

use peer::{Arguments, Counter, Times};

const QUEUE: &str = "order.placed";

/// What a handler tells: that it ran, and when.
#[derive(Clone, Debug, Default)]
struct Seen {
    counter: Counter,
    times: Times,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    match arguments.peer.as_str() {
        "apalis-postgres" => postgres::run(&arguments).await?,
        "apalis-sqlite" => sqlite::run(&arguments).await?,
        other => anyhow::bail!("there is no peer {other} here"),
    }
    std::process::exit(0)
}

/// A text as its codec wants it.
fn json(text: &str) -> Vec<u8> {
    format!("\"{text}\"").into_bytes()
}
