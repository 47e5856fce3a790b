//! Every operation of the OpenAPI document, with legal and illegal parameters and bodies: no answer
//! is a fault of ours, and each is one that the document knows.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Map, Value, json};

use crate::described::document;
use crate::world::World;

const ROUNDS: u64 = 60;

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 33).expect("31 bits") % sides
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())].clone()
    }

    fn text(&mut self, known: &[String]) -> String {
        if self.roll(3) == 0 && !known.is_empty() {
            return self.one_of(known);
        }
        let long = "é".repeat(1_001);
        self.one_of(&[
            "",
            "a",
            "0",
            "1",
            "-1",
            "500",
            "501",
            "18446744073709551616",
            "9007199254740993",
            "1e308",
            "NaN",
            "null",
            "true",
            "\0",
            "a\0b",
            "\r\nX: y",
            "../../etc/passwd",
            "%00",
            "..%2f",
            "' or 1=1 --",
            "<script>",
            "日本語",
            "\u{202e}",
            "\u{feff}",
            "😀",
            "%",
            "_",
            "dead",
            "failed",
            "pending",
            "done",
            "leased",
            "discarded",
            "open",
            "order.placed",
            "shop",
            "outbox",
            "inbox",
            "15m",
            "99999999999d",
            "2026-01-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "-009999-01-02T00:00:00Z",
            "json",
            "hex",
            "019a8a00-0000-7000-8000-000000000001",
            "00000000-0000-0000-0000-000000000000",
            long.as_str(),
        ])
        .to_owned()
    }

    /// A value that fits a schema more often than not.
    fn value(&mut self, schema: &Value, document: &Value, known: &[String], depth: u32) -> Value {
        if self.roll(6) == 0 || depth > 4 {
            let text = self.text(known).into();
            return self.one_of(&[
                json!(null),
                json!(-1),
                json!(0),
                json!(u64::MAX),
                json!(1.5e300),
                json!(true),
                json!([]),
                json!({}),
                json!([[[[]]]]),
                text,
                json!({ "\0": "\0" }),
            ]);
        }
        if let Some(name) = schema["$ref"].as_str() {
            let path = name.trim_start_matches('#');
            let schema = document.pointer(path).expect("a schema");
            return self.value(schema, document, known, depth);
        }
        for several in ["oneOf", "anyOf", "allOf"] {
            if let Some(choices) = schema[several].as_array() {
                let choice = self.one_of(choices);
                return self.value(&choice, document, known, depth + 1);
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.one_of(kinds),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("object") => self.object(schema, document, known, depth),
            Some("array") => {
                let count = self.roll(4);
                let each =
                    |dice: &mut Self| dice.value(&schema["items"], document, known, depth + 1);
                (0..count).map(|_| each(self)).collect()
            }
            Some("string") => self.text(known).into(),
            Some("integer") => {
                self.one_of(&[0_i64, 1, 5, 100, 500, -1, 1_000_000, i64::MAX]).into()
            }
            Some("boolean") => (self.roll(2) == 0).into(),
            Some("null") => Value::Null,
            _ => json!({ "any": self.text(known) }),
        }
    }

    fn object(&mut self, schema: &Value, document: &Value, known: &[String], depth: u32) -> Value {
        let mut object = Map::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if self.roll(3) == 0 {
                object.insert(name.clone(), self.value(schema, document, known, depth + 1));
            }
        }
        if schema["additionalProperties"].is_object() || self.roll(12) == 0 {
            object.insert(self.text(known), self.text(known).into());
        }
        object.into()
    }
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The path with its parameters, and its query.
fn target(
    path: &str,
    operation: &Value,
    document: &Value,
    known: &[String],
    dice: &mut Dice,
) -> String {
    let mut target = path.to_owned();
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().expect("a name");
        if parameter["in"] == "path" {
            // An empty one is another path.
            let text = Some(dice.text(known)).filter(|text| !text.is_empty());
            let text = escape(text.as_deref().unwrap_or("x"));
            target = target.replace(&format!("{{{name}}}"), &text);
        } else if dice.roll(4) == 0 {
            let value = match dice.value(&parameter["schema"], document, known, 0) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            query.push(format!("{}={}", escape(name), escape(&value)));
        }
    }
    if dice.roll(15) == 0 {
        query.push(escape(&dice.text(known)));
    }
    format!("/api/v1{target}?{}", query.join("&"))
}

/// A body, and whether it says that it is JSON.
fn body(operation: &Value, document: &Value, known: &[String], dice: &mut Dice) -> (String, bool) {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if schema.is_null() {
        return (String::new(), true);
    }
    match dice.roll(12) {
        0 => (dice.text(known), true),
        1 => (String::new(), dice.roll(2) == 0),
        2 => ("[".repeat(10_000), true),
        3 => (dice.value(schema, document, known, 0).to_string(), false),
        _ => (dice.value(schema, document, known, 0).to_string(), true),
    }
}

#[tokio::test]
async fn adm_1_no_request_is_a_fault_of_ours() {
    let world = World::new().await;
    let mut known: Vec<_> =
        world.dead("order.placed", 20, "no").await.iter().map(ToString::to_string).collect();
    known.push(world.publish("order.placed").await.to_string());
    let document = document(&world).await;
    let mut well = 0;
    let mut calls = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            for round in 0..ROUNDS {
                let mut dice = Dice(round.wrapping_mul(0x1234_5678_9abc_def1) ^ calls);
                let target = target(path, operation, &document, &known, &mut dice);
                let (text, is_json) = body(operation, &document, &known, &mut dice);
                let kind = if is_json { "application/json" } else { "text/plain" };
                let headers = [("authorization", "Bearer admin"), ("content-type", kind)];
                let method: Method = method.to_uppercase().parse().expect("a method");
                let what = format!("{method} {target} {text:.300}");
                let (status, headers, answer) =
                    world.begin(method, &target, &headers, Body::from(text)).await;
                calls += 1;
                assert!(!status.is_server_error(), "{what}: {status}");
                let documented = &operation["responses"][status.as_str()];
                assert!(documented.is_object(), "{what}: {status} is not documented");
                well += u64::from(status.is_success());
                let kind = headers.get("content-type").map(|kind| kind.to_str().expect("text"));
                if kind == Some("text/event-stream") {
                    continue;
                }
                let answer = axum::body::to_bytes(answer, usize::MAX).await.expect("a body");
                if kind == Some("application/json") {
                    let parsed: Result<Value, _> = serde_json::from_slice(&answer);
                    let parsed = parsed.unwrap_or_else(|_| panic!("{what}: {answer:?}"));
                    assert!(!answer.contains(&b'<'), "{what}");
                    let has_code = parsed["code"].is_string() && parsed["message"].is_string();
                    assert!(status.is_success() || has_code, "{what}: {parsed}");
                }
            }
        }
    }
    assert!(calls >= 30 * ROUNDS, "{calls}");
    // The generator is worth nothing when all is refused at once.
    assert!(well > calls / 5, "{well} of {calls} went well");
}
