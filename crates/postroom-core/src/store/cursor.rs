//! Where a page of messages ends, and the next one begins.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::ids::{MessageId, WorkId};

/// A place in a list of messages: what comes behind it is older.
///
/// Its text is the id of a message, and behind a dot the place of that message in the queue where
/// the list is [in that order](super::List::follows_queue). A message alone is a place, too: a list
/// in the order of the queue then looks it up, and if it is gone begins at the next older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The message.
    pub id: MessageId,
    /// Its place in the queue.
    pub work: Option<WorkId>,
}

impl From<MessageId> for Cursor {
    fn from(id: MessageId) -> Self {
        Self { id, work: None }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Some(work) => write!(f, "{}.{work}", self.id),
            None => fmt::Display::fmt(&self.id, f),
        }
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((id, work)) = text.split_once('.') else {
            return text.parse::<MessageId>().map(Self::from);
        };
        let seq = work.parse().map_err(|source| {
            let shown: String = work.chars().take(64).collect();
            let told = format!("the place behind a message id must be a number, got {shown:?}");
            Error::new(ErrorKind::Invalid, told).with_source(source)
        })?;
        Ok(Self { id: id.parse()?, work: Some(WorkId::new(seq)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_1_a_cursor_survives_its_text() {
        let id = MessageId::new();
        let in_queue = Cursor { id, work: Some(WorkId::new(7)) };
        for cursor in [Cursor::from(id), in_queue] {
            assert_eq!(cursor.to_string().parse::<Cursor>().expect("its own text"), cursor);
        }
        assert_eq!(Cursor::from(id).to_string(), id.to_string());
    }

    #[test]
    fn what_is_no_cursor_says_what_is_wrong() {
        let no_number = format!("{}.x", MessageId::new());
        for (text, part) in [("7", "a UUID"), (no_number.as_str(), "a number"), ("7.7", "a UUID")] {
            let error = text.parse::<Cursor>().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
