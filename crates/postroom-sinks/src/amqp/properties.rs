//! What stands around a message on the wire.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use postroom_core::Message;

use crate::cloud_event::{CloudEvents, Mode, STRUCTURED};
use crate::fault::Fault;

/// Written to disk by queues that keep anything there.
const PERSISTENT: u8 = 2;

/// The properties of a message.
pub(super) fn of(
    message: &Message,
    events: &CloudEvents,
    mode: Mode,
) -> Result<BasicProperties, Fault> {
    let mut headers = FieldTable::default();
    for (name, value) in message.headers().iter().filter(|(name, _)| !is_owned(name)) {
        insert(&mut headers, name, value)?;
    }
    let attributes = events.attributes(message);
    let kind = match mode {
        Mode::Binary => {
            for (name, value) in &attributes {
                insert(&mut headers, &format!("cloudEvents_{name}"), value)?;
            }
            message.content_type()
        }
        Mode::Structured => STRUCTURED,
    };
    let kind = short(kind).ok_or_else(|| Fault::permanent("content type: more than 255 bytes"))?;
    let mut properties = BasicProperties::default()
        .with_content_type(kind)
        .with_headers(headers)
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message.id().to_string().into());
    // These are for people: the attributes say the same, whatever its length.
    if let Some(topic) = short(message.topic().as_str()) {
        properties = properties.with_type(topic);
    }
    if let Some(id) = message.correlation_id().and_then(|id| short(id.as_ref())) {
        properties = properties.with_correlation_id(id);
    }
    let source = attributes.iter().find(|(name, _)| *name == "source");
    if let Some(source) = source.and_then(|(_, source)| short(source)) {
        properties = properties.with_app_id(source);
    }
    let seconds = message.occurred_at().map(|time| time.as_micros() / 1_000_000);
    if let Some(seconds) = seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        properties = properties.with_timestamp(seconds);
    }
    Ok(properties)
}

/// Whether a header means something to the broker or to the mapping of the event.
fn is_owned(name: &str) -> bool {
    let is_attribute = name.starts_with("cloudEvents_") || name.starts_with("cloudEvents:");
    is_attribute || name == "CC" || name == "BCC"
}

fn insert(headers: &mut FieldTable, name: &str, value: &str) -> Result<(), Fault> {
    let refused = || Fault::Permanent(format!("header name {name:?} is longer than 255 bytes"));
    let name = short(name).ok_or_else(refused)?;
    headers.insert(name, AMQPValue::LongString(value.into()));
    Ok(())
}

fn short(text: &str) -> Option<ShortString> {
    ShortString::try_new(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x09_headers_that_would_route_a_message_elsewhere_are_not_passed_on() {
        let message = Message::builder("t").header("CC", "other").header("x-cc", "fine");
        let message = message.header("cloudEvents_id", "forged").build().expect("legal");
        let properties = of(&message, &CloudEvents::default(), Mode::Structured).expect("sent");
        let headers = properties.headers().as_ref().expect("headers");
        let names: Vec<_> = headers.inner().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["x-cc"]);
    }

    #[test]
    fn rly_2_texts_that_do_not_fit_a_property_are_left_to_the_attributes() {
        let long = "ü".repeat(200);
        let message = Message::builder(&long).correlation_id(&long).build().expect("legal");
        let properties = of(&message, &CloudEvents::new("s"), Mode::Binary).expect("sent");
        assert_eq!((properties.kind(), properties.correlation_id()), (&None, &None));
        let headers = properties.headers().as_ref().expect("headers").inner();
        let value = headers.get("cloudEvents_correlationid");
        assert_eq!(value, Some(&AMQPValue::LongString(long.into())));
    }
}
