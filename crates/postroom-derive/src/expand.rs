//! The code that the derive writes.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{DeriveInput, Generics, Path, Result, parse_quote};

use crate::attributes::{Attributes, Role};

/// The implementation of `Event` for the input.
pub(crate) fn event(mut input: DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::read(&input)?;
    let krate = attributes.krate.clone().unwrap_or_else(|| parse_quote!(::postroom));
    bound(&mut input.generics, &attributes, &krate);
    let (topic, name) = (&attributes.topic, &input.ident);
    let methods = [
        aggregate(&attributes),
        ordering_key(&attributes),
        tenant_id(&attributes),
        idempotency_key(&attributes, &krate),
    ];
    let (implementation, types, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #implementation #krate::Event for #name #types #conditions {
            const TOPIC: &'static ::core::primitive::str = #topic;
            #(#methods)*
        }
    })
}

/// A generic event is one where its parameters let it be: it serialises and its roles display.
fn bound(generics: &mut Generics, attributes: &Attributes, krate: &Path) {
    if generics.type_params().next().is_none() {
        return;
    }
    let displayed: Vec<_> = [
        attributes.aggregate.as_ref().map(|(_, role)| role),
        attributes.ordering_key.as_ref(),
        attributes.tenant.as_ref(),
        attributes.version.as_ref(),
    ]
    .into_iter()
    .flatten()
    .map(|role| &role.ty)
    .collect();
    let keys = attributes.idempotency_key.iter().map(|role| &role.ty);
    let keys: Vec<_> = keys.collect();
    let conditions = generics.make_where_clause();
    conditions.predicates.push(parse_quote!(Self: #krate::__private::Serialize));
    for ty in displayed {
        conditions.predicates.push(parse_quote!(#ty: ::core::fmt::Display));
    }
    for ty in keys {
        conditions.predicates.push(parse_quote! {
            #ty: ::core::clone::Clone + ::core::convert::Into<#krate::IdempotencyKey>
        });
    }
}

fn aggregate(attributes: &Attributes) -> Option<TokenStream> {
    let (kind, role) = attributes.aggregate.as_ref()?;
    let id = role.display();
    Some(quote! {
        fn aggregate(
            &self,
        ) -> ::core::option::Option<(::std::string::String, ::std::string::String)> {
            #id.map(|id| (::std::string::String::from(#kind), id))
        }
    })
}

fn ordering_key(attributes: &Attributes) -> Option<TokenStream> {
    let key = match (&attributes.unordered, &attributes.ordering_key) {
        (None, None) => return None,
        (_, Some(role)) => role.display(),
        (Some(_), None) => quote!(::core::option::Option::None),
    };
    Some(quote! {
        fn ordering_key(&self) -> ::core::option::Option<::std::string::String> {
            #key
        }
    })
}

fn tenant_id(attributes: &Attributes) -> Option<TokenStream> {
    let tenant = attributes.tenant.as_ref()?.display();
    Some(quote! {
        fn tenant_id(&self) -> ::core::option::Option<::std::string::String> {
            #tenant
        }
    })
}

fn idempotency_key(attributes: &Attributes, krate: &Path) -> Option<TokenStream> {
    let key = match (&attributes.idempotency_key, &attributes.derive_key) {
        (None, None) => return None,
        (Some(role), _) => role.map(&quote! {
            ::core::convert::Into::<#krate::IdempotencyKey>::into(
                ::core::clone::Clone::clone(value)
            )
        }),
        (None, Some(_)) => {
            let version = match &attributes.version {
                Some(role) => role.display(),
                None => quote!(::core::option::Option::<::std::string::String>::None),
            };
            quote! {
                #krate::Event::aggregate(self).map(|(kind, id)| #krate::IdempotencyKey::derive(
                    #krate::Event::tenant_id(self).as_deref().unwrap_or_default(),
                    &kind,
                    &id,
                    <Self as #krate::Event>::TOPIC,
                    #version.as_deref(),
                ))
            }
        }
    };
    Some(quote! {
        fn idempotency_key(&self) -> ::core::option::Option<#krate::IdempotencyKey> {
            #key
        }
    })
}

impl Role {
    /// The field as an optional text.
    fn display(&self) -> TokenStream {
        // Errors point at the type of the field; names are looked up here, as everywhere else.
        let span = self.ty.span().resolved_at(Span::call_site());
        self.map(&quote_spanned!(span=> ::std::string::ToString::to_string(value)))
    }

    /// `value` of the field as an `Option` of what the expression makes of it.
    fn map(&self, expression: &TokenStream) -> TokenStream {
        let (member, ty) = (&self.member, &self.ty);
        let option = quote!(::core::option::Option);
        if self.optional {
            quote!(#option::map(#option::as_ref(&self.#member), |value: &#ty| #expression))
        } else {
            quote!(#option::map(#option::Some(&self.#member), |value: &#ty| #expression))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(source: &str) -> Result<String> {
        event(syn::parse_str(source).expect("Rust")).map(|tokens| tokens.to_string())
    }

    fn refused(source: &str) -> Vec<String> {
        let error = expanded(source).expect_err(source);
        error.into_iter().map(|error| error.to_string()).collect()
    }

    fn with_topic(topic: &str) -> String {
        format!("#[event(topic = {topic:?})] struct E;")
    }

    #[test]
    fn msg_2_topics_are_held_to_the_limits_of_a_message() {
        assert!(expanded(&with_topic(&"ä".repeat(255))).is_ok());
        let long = refused(&with_topic(&"ä".repeat(256)));
        assert_eq!(long, ["topic must be 1 to 255 characters, got 256"]);
        assert_eq!(refused(&with_topic("")), ["topic must be 1 to 255 characters, got 0"]);
        assert_eq!(refused(&with_topic("a\nb")), [r"topic must not contain '\n'"]);
    }

    #[test]
    fn msg_2_aggregate_kinds_are_held_to_the_limits_of_a_message() {
        let of = |kind: &str| {
            format!(r#"#[event(topic = "t")] struct E {{ #[event(aggregate = {kind:?})] id: u8 }}"#)
        };
        assert!(expanded(&of(&"ä".repeat(64))).is_ok());
        let long = refused(&of(&"ä".repeat(65)));
        assert_eq!(long, ["aggregate must be 1 to 64 characters, got 65"]);
        assert_eq!(refused(&of("")), ["aggregate must be 1 to 64 characters, got 0"]);
        assert_eq!(refused(&of("a\0")), [r"aggregate must not contain '\0'"]);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let source = r#"
            #[event(topic = "t", derive_key)]
            struct E { #[event(idempotency_key)] key: Uuid }
        "#;
        let expected = [
            "an idempotency key on an event with `derive_key`: remove one",
            "`derive_key` needs a field with #[event(aggregate = \"...\")]",
        ];
        assert_eq!(refused(source), expected);
        let unknown = r#"#[event(topc = "t")] struct E { #[event(agregate = "o")] id: u8 }"#;
        assert_eq!(refused(unknown).len(), 2);
    }

    #[test]
    fn contradictions_are_refused() {
        for (source, expected) in [
            ("struct E;", "an event needs a topic"),
            (r#"#[event(topic = "a", topic = "b")] struct E;"#, "given twice"),
            (
                r#"#[event(topic = "t", unordered)] struct E(#[event(ordering_key)] u8);"#,
                "an ordering key on an event that is `unordered`",
            ),
            (
                r#"#[event(topic = "t")] struct E(#[event(version)] u8);"#,
                "`version` is a part of the derived key",
            ),
            (r#"#[event(topic = "t")] enum E { A }"#, "an event is a struct"),
            (r#"#[event(topic = "t")] union E { a: u8 }"#, "an event is a struct"),
        ] {
            let problems = refused(source);
            assert!(problems[0].starts_with(expected), "{source}: {problems:?}");
        }
    }

    #[test]
    fn only_generic_events_get_conditions() {
        let plain = expanded(r#"#[event(topic = "t")] struct E<'a>(&'a str);"#).expect("legal");
        assert!(!plain.contains("where"), "{plain}");
        let generic = expanded(r#"#[event(topic = "t")] struct E<T>(T);"#).expect("legal");
        assert!(
            generic.contains("where Self : :: postroom :: __private :: Serialize"),
            "{generic}"
        );
    }
}
