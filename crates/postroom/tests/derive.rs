//! What a derived event says of itself.

use std::fmt;

use postroom::{Event, IdempotencyKey, IntoMessage, Message};
use serde::Serialize;
use uuid::Uuid;

fn message(event: &impl Event) -> Message {
    event.into_message().expect("a legal event")
}

fn ordering_key(event: &impl Event) -> Option<String> {
    message(event).ordering_key().map(ToString::to_string)
}

#[derive(Serialize, Event)]
#[event(topic = "order.placed")]
struct OrderPlaced {
    #[event(aggregate = "order")]
    order_id: u64,
    #[event(tenant)]
    shop: String,
    total_cents: u64,
}

fn order_placed() -> OrderPlaced {
    OrderPlaced { order_id: 7, shop: "acme".into(), total_cents: 1250 }
}

#[test]
fn msg_3_a_derived_event_has_topic_aggregate_tenant_and_json() {
    let message = message(&order_placed());
    assert_eq!(OrderPlaced::TOPIC, "order.placed");
    assert_eq!(message.topic().as_str(), "order.placed");
    assert_eq!(message.aggregate_type().map(AsRef::as_ref), Some("order"));
    assert_eq!(message.aggregate_id().map(AsRef::as_ref), Some("7"));
    assert_eq!(message.tenant_id().map(AsRef::as_ref), Some("acme"));
    assert_eq!(message.idempotency_key(), None);
    let json: serde_json::Value = message.json().expect("its own JSON");
    assert_eq!(json, serde_json::json!({"order_id": 7, "shop": "acme", "total_cents": 1250}));
}

#[test]
fn ord_4_an_event_with_an_aggregate_is_ordered_by_it() {
    assert_eq!(ordering_key(&order_placed()).as_deref(), Some("order/7"));
}

#[test]
fn ord_4_an_event_opts_out_of_order() {
    #[derive(Serialize, Event)]
    #[event(topic = "order.viewed", unordered)]
    struct OrderViewed(#[event(aggregate = "order")] u64);

    let message = message(&OrderViewed(7));
    assert_eq!(message.ordering_key(), None);
    assert_eq!(message.aggregate_id().map(AsRef::as_ref), Some("7"));
}

#[test]
fn ord_4_an_ordering_key_replaces_the_aggregate() {
    #[derive(Serialize, Event)]
    #[event(topic = "payment.taken")]
    struct PaymentTaken {
        #[event(aggregate = "payment")]
        payment: u64,
        #[event(ordering_key)]
        account: &'static str,
    }

    let event = PaymentTaken { payment: 1, account: "alice" };
    assert_eq!(ordering_key(&event).as_deref(), Some("alice"));
}

#[test]
fn ord_3_an_event_without_an_aggregate_has_no_order() {
    #[derive(Serialize, Event)]
    #[event(topic = "heartbeat")]
    struct Heartbeat;

    let message = message(&Heartbeat);
    assert_eq!((message.ordering_key(), message.aggregate_id()), (None, None));
    assert_eq!(message.payload().as_ref(), b"null");
}

#[derive(Serialize, Event)]
#[event(topic = "user.invited")]
struct UserInvited {
    #[event(aggregate = "user")]
    user: Option<u64>,
    #[event(tenant)]
    tenant: Option<String>,
    #[event(ordering_key)]
    order: Option<u8>,
    #[event(idempotency_key)]
    request: Option<Uuid>,
}

#[test]
fn msg_3_a_role_that_is_none_is_absent() {
    let none = UserInvited { user: None, tenant: None, order: None, request: None };
    let absent = message(&none);
    assert_eq!((absent.aggregate_id(), absent.tenant_id()), (None, None));
    assert_eq!((absent.ordering_key(), absent.idempotency_key()), (None, None));

    let request = Uuid::from_u128(9);
    let some = UserInvited {
        user: Some(7),
        tenant: Some("acme".into()),
        order: Some(3),
        request: Some(request),
    };
    let present = message(&some);
    assert_eq!(present.aggregate_id().map(AsRef::as_ref), Some("7"));
    assert_eq!(present.tenant_id().map(AsRef::as_ref), Some("acme"));
    assert_eq!(present.ordering_key().map(AsRef::as_ref), Some("3"));
    assert_eq!(present.idempotency_key(), Some(request.into()));
}

#[test]
fn msg_3_an_idempotency_key_is_taken_as_it_is() {
    #[derive(Serialize, Event)]
    #[event(topic = "t")]
    struct Keyed(#[event(idempotency_key)] IdempotencyKey);

    let key = IdempotencyKey::derive("", "c", "e", "k", None);
    assert_eq!(message(&Keyed(key)).idempotency_key(), Some(key));
}

#[test]
fn msg_4_a_derived_key_names_tenant_aggregate_topic_and_version() {
    #[derive(Serialize, Event)]
    #[event(topic = "order.placed", derive_key)]
    struct Once {
        #[event(aggregate = "order")]
        order: u64,
        #[event(tenant)]
        shop: &'static str,
        #[event(version)]
        revision: u32,
    }
    #[derive(Serialize, Event)]
    #[event(topic = "order.placed", derive_key)]
    struct Plain(#[event(aggregate = "order")] Option<u64>);

    let once = Once { order: 42, shop: "acme", revision: 3 };
    let expected = IdempotencyKey::derive("acme", "order", "42", "order.placed", Some("3"));
    assert_eq!(once.idempotency_key(), Some(expected));
    let plain = IdempotencyKey::derive("", "order", "42", "order.placed", None);
    assert_eq!(Plain(Some(42)).idempotency_key(), Some(plain));
    assert_eq!(Plain(None).idempotency_key(), None);
}

#[derive(Serialize, Event)]
#[event(topic = "thing.changed")]
struct Changed<'a, I, B>
where
    B: Clone,
{
    #[event(aggregate = "thing")]
    id: I,
    #[event(tenant)]
    tenant: Option<&'a str>,
    body: B,
}

#[test]
fn msg_3_events_may_be_generic() {
    let event = Changed { id: 7_u8, tenant: Some("acme"), body: vec![1, 2] };
    assert_eq!(ordering_key(&event).as_deref(), Some("thing/7"));
    assert_eq!(event.tenant_id().as_deref(), Some("acme"));
}

#[test]
fn msg_3_any_type_that_displays_can_be_an_id() {
    #[derive(Clone, Serialize)]
    struct Sku(u32);
    impl fmt::Display for Sku {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "sku-{:04}", self.0)
        }
    }

    let event = Changed { id: Sku(12), tenant: None, body: () };
    assert_eq!(ordering_key(&event).as_deref(), Some("thing/sku-0012"));
}

#[test]
fn msg_3_events_may_be_made_by_macros() {
    macro_rules! event {
        ($name:ident, $topic:literal, $field:ident: $id:ty) => {
            #[derive(Serialize, Event)]
            #[event(topic = $topic)]
            struct $name {
                #[event(aggregate = "thing")]
                $field: $id,
            }
        };
    }
    event!(Made, "thing.made", r#type: String);
    event!(Perhaps, "thing.made", id: Option<u8>);

    assert_eq!(ordering_key(&Made { r#type: "a".into() }).as_deref(), Some("thing/a"));
    assert_eq!(ordering_key(&Perhaps { id: None }), None);
}

#[test]
fn msg_2_limits_of_values_are_checked_when_the_message_is_made() {
    let event = OrderPlaced { shop: "x".repeat(65), ..order_placed() };
    let error = (&event).into_message().expect_err("the tenant is too long");
    assert_eq!(error.to_string(), "tenant_id must be 1 to 64 characters, got 65 characters");
}
