//! What old outbox tables look like: which column holds which field, and which rows are pending.

use clap::ValueEnum;

/// The tables that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Id, OccurredOn, Type, Data, ProcessedDate; or with TenantId, EventType, Payload, CreatedAt,
    /// IsProcessed, IdempotencyKey, ProcessedAt
    #[value(name = "OutboxMessages", alias = "outbox_messages")]
    OutboxMessages,
    /// event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status,
    /// available_at, created_at
    #[value(name = "outbox_event")]
    OutboxEvent,
    /// Id, Topic, Payload, CreatedAt, Status, IsProcessed, NextAttemptAt, MessageId,
    /// CorrelationId, DueTimeUtc
    #[value(name = "infra.Outbox", alias = "infra_outbox")]
    InfraOutbox,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)+) => {
        /// What a column of an old table can be for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Field {
            $($(#[$doc])* $field,)+
        }

        impl Field {
            /// In the order in which they are read.
            pub(crate) const ALL: &[Self] = &[$(Self::$field,)+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)+
                }
            }
        }
    };
}

fields! {
    /// The row's own id.
    Id = "id",
    /// What receivers know the message by, when that is not the row's id.
    MessageId = "message_id",
    Topic = "topic",
    Payload = "payload",
    ContentType = "content_type",
    Headers = "headers",
    AggregateType = "aggregate_type",
    AggregateId = "aggregate_id",
    OrderingKey = "ordering_key",
    Tenant = "tenant_id",
    CorrelationId = "correlation_id",
    CausationId = "causation_id",
    IdempotencyKey = "idempotency_key",
    OccurredAt = "occurred_at",
    DueAt = "due_at",
    /// A retry is not made before.
    RetryAt = "next_attempt_at",
    /// A number that rises with each row; without it the time is the order.
    Sequence = "sequence",
    /// A number that the shape gives a meaning to.
    Status = "status",
    /// Whether it was sent.
    Processed = "processed",
    /// When it was sent; null before.
    ProcessedAt = "processed_at",
}

impl Field {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Whether it says something about the message; the others only choose and sort rows.
    pub(crate) fn is_said(self) -> bool {
        !matches!(self, Self::Sequence | Self::Status | Self::Processed | Self::ProcessedAt)
    }

    /// Whether 16 bytes of it are a UUID, whatever they look like.
    pub(crate) fn is_id(self) -> bool {
        matches!(self, Self::Id | Self::MessageId | Self::IdempotencyKey)
    }

    pub(crate) fn is_required(self) -> bool {
        matches!(self, Self::Id | Self::Topic | Self::Payload)
    }
}

/// A column that the caller names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) field: Field,
    pub(crate) column: String,
}

impl Shape {
    /// The table, with its schema if it has one.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::OutboxMessages => "OutboxMessages",
            Self::OutboxEvent => "outbox_event",
            Self::InfraOutbox => "infra.Outbox",
        }
    }

    /// The names that a column can have; the first that the table has is taken.
    pub(crate) fn columns(self, field: Field) -> &'static [&'static str] {
        match (self, field) {
            (Self::OutboxEvent, Field::Id) => &["event_id"],
            (_, Field::Id) => &["Id"],
            (Self::InfraOutbox, Field::MessageId) => &["MessageId"],
            (Self::OutboxMessages, Field::Topic) => &["Type", "EventType", "EventName", "Name"],
            (Self::OutboxEvent, Field::Topic) => &["event_type"],
            (Self::InfraOutbox, Field::Topic) => &["Topic"],
            (Self::OutboxMessages, Field::Payload) => &["Data", "Payload"],
            (_, Field::Payload) => &["payload"],
            (_, Field::ContentType) => &["content_type"],
            (_, Field::Headers) => &["headers"],
            (_, Field::AggregateType) => &["aggregate_type"],
            (_, Field::AggregateId) => &["aggregate_id"],
            (_, Field::Tenant) => &["tenant_id"],
            (_, Field::CorrelationId) => &["correlation_id"],
            (_, Field::CausationId) => &["causation_id"],
            (_, Field::IdempotencyKey) => &["idempotency_key"],
            (Self::OutboxMessages, Field::OccurredAt) => {
                &["OccurredOn", "OccurredAt", "CreatedAt", "CreatedOn"]
            }
            (_, Field::OccurredAt) => &["created_at"],
            (Self::InfraOutbox, Field::DueAt) => &["DueTimeUtc"],
            (Self::OutboxEvent, Field::DueAt) => &["available_at"],
            (Self::OutboxMessages, Field::DueAt) => &["due_at"],
            (_, Field::RetryAt) => &["next_attempt_at"],
            (_, Field::Sequence) => &["sequence", "sequence_number", "seq", "position"],
            (Self::OutboxEvent | Self::InfraOutbox, Field::Status) => &["status"],
            (Self::OutboxMessages | Self::InfraOutbox, Field::Processed) => &["IsProcessed"],
            (Self::OutboxMessages, Field::ProcessedAt) => &["ProcessedDate", "ProcessedAt"],
            _ => &[],
        }
    }

    /// The values of the status of rows that were not sent yet, and of those that were given up.
    pub(crate) fn statuses(self) -> (&'static [u8], &'static [u8]) {
        match self {
            // 0 ready, 1 in progress, 2 done, 3 failed.
            Self::InfraOutbox => (&[0, 1], &[3]),
            // 0 new, 1 done, 2 retry, 3 dead.
            Self::OutboxEvent | Self::OutboxMessages => (&[0, 2], &[3]),
        }
    }
}

/// How names are compared: databases and frameworks write `EventType` as `event_type` and
/// `eventtype` too.
pub(crate) fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}
