//! Texts that become part of a protocol, looked at before they are sent.
//!
//! A message that comes from our own builder has only legal names; one that another language wrote
//! into the table may have any. What would break out of its place on the wire is refused, for good:
//! the message is a dead letter, and the connection never sees it.

use postroom_core::Message;

use crate::fault::Fault;

/// For protocols of lines, HTTP and NATS: fails when a name or value could end one. Protocols that
/// send the length of a text before it, as AMQP, Kafka and Redis do, take any.
pub(crate) fn check(message: &Message) -> Result<(), Fault> {
    plain("topic", message.topic().as_str())?;
    plain("content type", message.content_type())?;
    if let Some(key) = message.ordering_key() {
        plain("ordering key", key.as_ref())?;
    }
    for (name, value) in message.headers().iter() {
        let is_token = !name.is_empty() && name.bytes().all(is_token);
        if !is_token {
            return Err(Fault::Permanent(format!("header name {name:?} is not a plain name")));
        }
        plain(&format!("header {name}"), value)?;
    }
    Ok(())
}

/// Fails when the text has a character that ends a line or a string.
pub(crate) fn plain(what: &str, text: &str) -> Result<(), Fault> {
    match text.chars().find(|c| c.is_control() && *c != '\t') {
        None => Ok(()),
        Some(found) => Err(Fault::Permanent(format!("{what} has the control character {found:?}"))),
    }
}

/// What names of HTTP headers consist of; other protocols allow no less.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_header(name: &str) -> Message {
        Message::builder("t").header(name, "v").build().expect("visible ASCII")
    }

    #[test]
    fn x09_names_that_would_break_out_are_refused_for_good() {
        check(&with_header("x-tenant")).expect("a name");
        for name in ["a:b", "a(b", "a\"b", "a,b", "a=b", "[a]", "a/b"] {
            let fault = check(&with_header(name)).expect_err(name);
            assert!(matches!(fault, Fault::Permanent(_)), "{name}: {fault:?}");
        }
    }

    #[test]
    fn x09_control_characters_end_a_line_and_are_refused() {
        plain("topic", "order placed\twith a tab").expect("harmless");
        for text in ["a\r\nb", "a\nb", "a\0b", "a\u{85}b", "\u{7f}"] {
            plain("topic", text).expect_err(text);
        }
    }
}
