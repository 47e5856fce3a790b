//! `postroom bench`.

use std::time::Duration;

use serde_json::{Value, json};

use super::Report;
use crate::args;
use crate::bench::{Latency, Measured, Scratch, measure};
use crate::failure::{Exit, Failure};
use crate::render::json;
use crate::store::Target;

pub(super) async fn run(
    args: &args::Bench,
    target: &Target,
    as_json: bool,
) -> Result<Report, Failure> {
    if !target.url().is_local() && !args.yes {
        let what = format!("{} is not on this host", target.url().shown());
        let next = "a measurement keeps a server busy: add --yes if nobody minds";
        return Err(Failure::new(Exit::Invalid, what).next(next));
    }
    let scratch = Scratch::beside(target)?;
    let measured = measure(&scratch, args).await;
    // Whatever came of it, nothing is left behind.
    let dropped = scratch.drop().await;
    let measured = measured?;
    dropped?;
    Ok(Report::data(match as_json {
        true => document(args, &measured),
        false => text(args, &measured),
    }))
}

fn per_second(messages: u64, time: Duration) -> u64 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
    messages.saturating_mul(1_000_000) / micros
}

fn text(args: &args::Bench, measured: &Measured) -> String {
    let Measured { messages, publishing, delivering, commit, handler } = measured;
    let line = |name: &str, latency: &Latency| {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(millis);
        format!("{name:17}  p50 {p50}, p99 {p99}, max {max}\n")
    };
    let published = per_second(*messages, *publishing);
    let delivered = per_second(*messages, *delivering);
    let mut text = format!("{messages} messages of {} bytes\n", args.bytes);
    text += &format!("{:17}  {published}/s, {} in a transaction\n", "publish", args.chunk);
    text += &format!("{:17}  {delivered}/s\n", "deliver");
    text += &line("call to commit", commit);
    text += &line("commit to handler", handler);
    text
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

fn document(args: &args::Bench, measured: &Measured) -> String {
    let latency = |latency: &Latency| -> Value {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(micros);
        json!({ "p50": p50, "p99": p99, "max": max })
    };
    json::document(&json!({
        "messages": measured.messages,
        "payload_bytes": args.bytes,
        "chunk": args.chunk,
        "publish_per_second": per_second(measured.messages, measured.publishing),
        "deliver_per_second": per_second(measured.messages, measured.delivering),
        "commit_micros": latency(&measured.commit),
        "handler_micros": latency(&measured.handler),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_figures_are_for_people() {
        let ms = Duration::from_millis;
        let latency = Latency { p50: ms(1), p99: ms(20), max: ms(300) };
        let measured = Measured {
            messages: 10_000,
            publishing: ms(500),
            delivering: ms(250),
            commit: latency,
            handler: latency,
        };
        let args = args::Bench { messages: 10_000, bytes: 200, chunk: 100, yes: false };
        let expected = "\
10000 messages of 200 bytes
publish            20000/s, 100 in a transaction
deliver            40000/s
call to commit     p50 1.00 ms, p99 20.00 ms, max 300.00 ms
commit to handler  p50 1.00 ms, p99 20.00 ms, max 300.00 ms
";
        assert_eq!(text(&args, &measured), expected);
    }
}
