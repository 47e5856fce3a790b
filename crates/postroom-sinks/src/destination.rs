//! Where at a broker a message goes: a text with places for fields of the message.

use postroom_core::Message;

use crate::fault::Fault;

/// A text in which `{topic}`, `{tenant}` and `{aggregate_type}` stand for the fields of the message
/// that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Topic,
    Tenant,
    AggregateType,
}

impl Field {
    const ALL: [Self; 3] = [Self::Topic, Self::Tenant, Self::AggregateType];

    fn name(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Tenant => "tenant",
            Self::AggregateType => "aggregate_type",
        }
    }

    fn of(self, message: &Message) -> Option<&str> {
        match self {
            Self::Topic => Some(message.topic().as_str()),
            Self::Tenant => message.tenant_id().map(AsRef::as_ref),
            Self::AggregateType => message.aggregate_type().map(AsRef::as_ref),
        }
    }
}

impl Destination {
    /// Reads the text of the setting with this name. The error says what is wrong with it.
    pub(crate) fn parse(setting: &str, text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(format!("{setting} is empty; write \"{{topic}}\" for the message's topic"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, open) = rest.split_at(at);
            let field = open.strip_prefix('{').and_then(|open| open.split_once('}'));
            let Some((name, behind)) = field else {
                return Err(format!("{setting} has a brace without its other half: {text}"));
            };
            let Some(field) = Field::ALL.into_iter().find(|field| field.name() == name) else {
                let known = "{topic}, {tenant} and {aggregate_type}";
                return Err(format!("{setting} has the unknown field {{{name}}}; known: {known}"));
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Field(field));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Where every message goes, if that is the same for all.
    #[cfg(any(feature = "nats", test))]
    pub(crate) fn fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Where this message goes.
    pub(crate) fn of(&self, message: &Message) -> Result<String, Fault> {
        self.0.iter().try_fold(String::new(), |mut text, part| {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Field(field) => text.push_str(field.of(message).ok_or_else(|| {
                    let name = field.name();
                    Fault::Permanent(format!("the destination needs {name}, and it has none"))
                })?),
            }
            Ok(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Destination {
        Destination::parse("subject", text).expect("legal")
    }

    #[test]
    fn rly_2_fields_of_the_message_take_their_places() {
        let message = Message::builder("order.placed").tenant_id("acme").aggregate("order", "7");
        let message = message.build().expect("legal");
        let of = |text: &str| parse(text).of(&message).expect("all there");
        assert_eq!(of("{topic}"), "order.placed");
        assert_eq!(of("events"), "events");
        assert_eq!((parse("events").fixed(), parse("a{topic}").fixed()), (Some("events"), None));
        assert_eq!(of("{tenant}.{aggregate_type}.x.{topic}-"), "acme.order.x.order.placed-");
        assert_eq!(of("{topic}{topic}"), "order.placedorder.placed");
    }

    #[test]
    fn rly_2_a_message_without_the_field_is_refused_for_good() {
        let message = Message::builder("t").build().expect("legal");
        for (text, field) in [("a.{tenant}", "tenant"), ("{aggregate_type}", "aggregate_type")] {
            let fault = parse(text).of(&message).expect_err("it has none");
            assert!(matches!(&fault, Fault::Permanent(why) if why.contains(field)), "{fault:?}");
        }
    }

    #[test]
    fn x09_a_field_is_not_read_as_a_template() {
        let message = Message::builder("{tenant}").build().expect("legal");
        assert_eq!(parse("{topic}").of(&message), Ok("{tenant}".to_owned()));
    }

    #[test]
    fn rly_2_a_mistake_is_told_with_the_name_of_its_setting() {
        for text in ["", "{", "}", "a{topic", "a}b", "{topic}}", "{}", "{id}", "{{topic}}"] {
            let error = Destination::parse("subject", text).expect_err(text);
            assert!(error.starts_with("subject "), "{error}");
        }
        assert!(Destination::parse("s", "{id}").expect_err("unknown").contains("{tenant}"));
    }
}
