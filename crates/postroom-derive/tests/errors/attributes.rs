use postroom_derive::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
struct NoTopic;

#[derive(Serialize, Event)]
#[event(topic = "order\nplaced")]
struct ControlCharacter;

#[derive(Serialize, Event)]
#[event(topic = "order.placed")]
struct UnknownRole {
    #[event(agregate = "order")]
    order_id: u64,
}

#[derive(Serialize, Event)]
#[event(topic = "order.placed")]
enum Choice {
    A,
}

fn main() {}
