//! Who was first, when a key or an id is taken.

use postroom_core::store::id_taken;
use postroom_core::{Message, MessageId, Result};
use uuid::Uuid;

/// What `append_lookup.sql` finds, but for the message behind the id.
#[derive(Debug)]
pub(super) struct InTheWay {
    pub(super) key_message_id: Option<Uuid>,
    pub(super) key_content: Option<Vec<u8>>,
    pub(super) gone: bool,
    pub(super) seq: Option<i64>,
    pub(super) placed: bool,
}

/// What that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// A message is there.
    Existed {
        /// Its id.
        id: MessageId,
        /// Whether it says the same, as far as that is known.
        same_content: bool,
    },
    /// It is this very message, and it has no place yet: what wrote it was interrupted.
    Unplaced {
        /// Under which number it was written.
        seq: i64,
    },
    /// The key was taken for this very message, which was not written yet.
    Unwritten,
}

impl InTheWay {
    /// `stored` reads the message behind the id.
    pub(super) fn first_one(
        self,
        message: &Message,
        stored: impl FnOnce() -> Result<Message>,
    ) -> Result<First> {
        let own = First::Existed { id: message.id(), same_content: true };
        let other = self.key_message_id.filter(|first| *first != message.id().as_uuid());
        if let Some(first) = other {
            let same_content = self.key_content.is_none_or(|said| said == message.content_hash());
            return Ok(First::Existed { id: MessageId::from(first), same_content });
        }
        let Some(seq) = self.seq else {
            // A key without its message: delivered and deleted, and still a duplicate.
            return Ok(if self.gone { own } else { First::Unwritten });
        };
        if !stored().is_ok_and(|stored| stored.content_hash() == message.content_hash()) {
            return Err(id_taken(message.id()));
        }
        Ok(if self.placed { own } else { First::Unplaced { seq } })
    }
}
