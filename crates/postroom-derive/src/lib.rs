//! `#[derive(Event)]`, for users of the `postroom` crate, which re-exports it.
//!
//! The macro only fills in the methods of the trait `Event`; everything it does can be written by
//! hand. It refuses at compile time what the message would refuse at run time, as far as it sees.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `postroom::Event` for a struct.
///
/// Facts about the type stand on the type; the role of a field stands on the field.
///
/// # On the type
///
/// | attribute | meaning |
/// |---|---|
/// | `topic = "order.placed"` | the topic; required, 1 to 255 characters, no control characters |
/// | `unordered` | do not order by the aggregate |
/// | `derive_key` | make the idempotency key from tenant, aggregate, topic and version |
/// | `crate = "path"` | where Postroom is, if not at `::postroom` |
///
/// # On a field
///
/// | attribute | meaning |
/// |---|---|
/// | `aggregate = "order"` | the id of what it happened to, and its kind (1 to 64 characters) |
/// | `ordering_key` | the key within which events are ordered, instead of the aggregate |
/// | `tenant` | whose event it is |
/// | `idempotency_key` | an `IdempotencyKey` or a `Uuid`; a second publish with it is a duplicate |
/// | `version` | the last part of the derived key, such as the revision of the aggregate |
///
/// Each role belongs to one field at most. All of them, except `idempotency_key`, take any type
/// with `Display`. A field of type `Option<_>` that is `None` counts as absent; a derived key needs
/// the aggregate, so an event whose aggregate is `None` has no key.
///
/// An event with an aggregate is ordered by it: `order/7`. A derived key says that there is one
/// such event per aggregate (and version): publish `order.placed` for order 7 twice and the second
/// is a duplicate.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::event(input).unwrap_or_else(syn::Error::into_compile_error).into()
}
