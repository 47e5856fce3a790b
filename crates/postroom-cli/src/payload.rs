//! Where the payload of `enqueue` comes from.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;

use postroom::OutboxConfig;

use crate::args::Enqueue;
use crate::failure::{Exit, Failure};

/// Reads the payload: the option, the file, or standard input when something is piped into it.
pub(crate) fn read(args: &Enqueue) -> Result<Vec<u8>, Failure> {
    let max = OutboxConfig::default().max_payload_bytes;
    let stdin = || bounded(io::stdin().lock(), max, "standard input");
    let payload = match (&args.payload, &args.payload_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) if path == Path::new("-") => stdin()?,
        (None, Some(path)) => file(path, max)?,
        (None, None) if io::stdin().is_terminal() => {
            let next = "use --payload TEXT, --payload-file FILE or a pipe; --payload '' is empty";
            return Err(Failure::new(Exit::Invalid, "no payload was given").next(next));
        }
        (None, None) => stdin()?,
    };
    if args.content_type.is_none() {
        require_json(&payload)?;
    }
    Ok(payload)
}

fn file(path: &Path, max: usize) -> Result<Vec<u8>, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
    bounded(file, max, &name)
}

/// Reads up to `max` bytes; of what is longer only the size.
fn bounded(mut source: impl Read, max: usize, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let limit = max as u64;
    let mut head = source.by_ref().take(limit);
    head.read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    let rest = io::copy(&mut source, &mut io::sink()).map_err(|error| unreadable(name, &error))?;
    if rest == 0 {
        return Ok(bytes);
    }
    let what = format!("payload must be at most {max} bytes, got {} bytes", limit + rest);
    let next = "nothing was written; store large things elsewhere and send a reference";
    Err(Failure::new(Exit::Invalid, what).next(next))
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    let what = format!("can not read the payload from {name}");
    Failure::new(Exit::Invalid, what).why(error)
}

/// A message without a content type says that it is JSON: then it should be.
fn require_json(payload: &[u8]) -> Result<(), Failure> {
    if payload.is_empty() {
        return Ok(());
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(payload) {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = "payload must be JSON when no --content-type is given";
            let next = "nothing was written; quote it as JSON, or add --content-type text/plain";
            Err(Failure::new(Exit::Invalid, what).why(&error).next(next))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_2_a_payload_past_the_limit_names_both_sizes() {
        assert_eq!(bounded(&b"12345"[..], 5, "x").expect("fits"), b"12345");
        let failure = bounded(&b"1234567"[..], 5, "x").expect_err("too long");
        let text = failure.render(false);
        assert!(text.contains("payload must be at most 5 bytes, got 7 bytes"), "{text}");
    }

    #[test]
    fn payloads_without_a_content_type_are_json_or_empty() {
        for fits in [&b""[..], b"{}", b" 7\n", b"\"text\""] {
            assert!(require_json(fits).is_ok());
        }
        for bad in [&b"hello"[..], b"{} {}", b"\xff"] {
            assert!(require_json(bad).is_err());
        }
    }
}
