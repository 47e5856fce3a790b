//! What the attributes say, checked as far as the source text allows.

use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, LitStr, Member, Path, Result, Type};

const TOPIC_MAX_CHARS: usize = 255;
const AGGREGATE_MAX_CHARS: usize = 64;

/// Everything that `#[event(...)]` says about a struct.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) topic: Option<LitStr>,
    pub(crate) unordered: Option<Path>,
    pub(crate) derive_key: Option<Path>,
    pub(crate) krate: Option<Path>,
    pub(crate) aggregate: Option<(LitStr, Role)>,
    pub(crate) ordering_key: Option<Role>,
    pub(crate) tenant: Option<Role>,
    pub(crate) idempotency_key: Option<Role>,
    pub(crate) version: Option<Role>,
}

/// A field that plays a role.
#[derive(Clone)]
pub(crate) struct Role {
    pub(crate) member: Member,
    /// The type, without its `Option`.
    pub(crate) ty: Type,
    pub(crate) optional: bool,
}

impl Attributes {
    /// Reads all attributes and reports all problems at once.
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let fields = fields(input)?;
        let mut attributes = Self::default();
        let mut problems = Problems::default();
        for attribute in events(&input.attrs) {
            problems.note(attribute.parse_nested_meta(|meta| attributes.on_type(&meta)));
        }
        for (field, member) in fields.iter().zip(fields.members()) {
            let role = Role::of(field, member);
            for attribute in events(&field.attrs) {
                problems
                    .note(attribute.parse_nested_meta(|meta| attributes.on_field(&meta, &role)));
            }
        }
        problems.into_result()?;
        attributes.check(input).map(|()| attributes)
    }

    fn on_type(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("topic") {
            let topic = checked(text(meta)?, "topic", TOPIC_MAX_CHARS, char::is_control)?;
            once(&mut self.topic, topic, meta)
        } else if meta.path.is_ident("unordered") {
            once(&mut self.unordered, meta.path.clone(), meta)
        } else if meta.path.is_ident("derive_key") {
            once(&mut self.derive_key, meta.path.clone(), meta)
        } else if meta.path.is_ident("crate") {
            once(&mut self.krate, text(meta)?.parse()?, meta)
        } else {
            let known = "topic, unordered, derive_key or crate";
            Err(meta.error(format!("unknown attribute of an event: expected {known}")))
        }
    }

    fn on_field(&mut self, meta: &ParseNestedMeta<'_>, role: &Role) -> Result<()> {
        if meta.path.is_ident("aggregate") {
            let is_nul = |c| c == '\0';
            let kind = checked(text(meta)?, "aggregate", AGGREGATE_MAX_CHARS, is_nul)?;
            return once(&mut self.aggregate, (kind, role.clone()), meta);
        }
        let slot = if meta.path.is_ident("ordering_key") {
            &mut self.ordering_key
        } else if meta.path.is_ident("tenant") {
            &mut self.tenant
        } else if meta.path.is_ident("idempotency_key") {
            &mut self.idempotency_key
        } else if meta.path.is_ident("version") {
            &mut self.version
        } else {
            let known = "aggregate, ordering_key, tenant, idempotency_key or version";
            return Err(meta.error(format!("unknown role of a field: expected {known}")));
        };
        once(slot, role.clone(), meta)
    }

    /// What must or must not stand together.
    fn check(&self, input: &DeriveInput) -> Result<()> {
        let mut problems = Problems::default();
        let mut refuse = |on: &dyn quote::ToTokens, message: &str| {
            problems.note(Err(Error::new_spanned(on, message)));
        };
        if self.topic.is_none() {
            refuse(&input.ident, "an event needs a topic: #[event(topic = \"order.placed\")]");
        }
        if let (Some(_), Some(key)) = (&self.unordered, &self.ordering_key) {
            refuse(&key.member, "an ordering key on an event that is `unordered`: remove one");
        }
        if let (Some(_), Some(key)) = (&self.derive_key, &self.idempotency_key) {
            refuse(&key.member, "an idempotency key on an event with `derive_key`: remove one");
        }
        if let (Some(derive), None) = (&self.derive_key, &self.aggregate) {
            let message = "`derive_key` needs a field with #[event(aggregate = \"...\")]";
            refuse(derive, message);
        }
        if let (None, Some(version)) = (&self.derive_key, &self.version) {
            let message = "`version` is a part of the derived key: add `derive_key` to the type";
            refuse(&version.member, message);
        }
        problems.into_result()
    }
}

impl Role {
    fn of(field: &Field, member: Member) -> Self {
        let inner = option_of(&field.ty);
        Self { member, ty: inner.unwrap_or(&field.ty).clone(), optional: inner.is_some() }
    }
}

fn fields(input: &DeriveInput) -> Result<&Fields> {
    let keyword = match &input.data {
        Data::Struct(data) => return Ok(&data.fields),
        Data::Enum(data) => data.enum_token.span(),
        Data::Union(data) => data.union_token.span(),
    };
    let message = "an event is a struct, because each type has one topic: \
                   derive Event for a struct per variant";
    Err(Error::new(keyword, message))
}

fn events(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("event"))
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

fn once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("given twice")),
    }
}

fn checked(text: LitStr, name: &str, max: usize, refused: impl Fn(char) -> bool) -> Result<LitStr> {
    let value = text.value();
    let length = value.chars().count();
    if length == 0 || length > max {
        let message = format!("{name} must be 1 to {max} characters, got {length}");
        return Err(Error::new(text.span(), message));
    }
    match value.chars().find(|&c| refused(c)) {
        None => Ok(text),
        Some(c) => Err(Error::new(text.span(), format!("{name} must not contain {c:?}"))),
    }
}

/// The `T` of an `Option<T>`, seen by its name as serde and clap do.
fn option_of(mut ty: &Type) -> Option<&Type> {
    // A type that came through a macro is wrapped in a group that nobody sees.
    while let Type::Group(group) = ty {
        ty = &group.elem;
    }
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        syn::GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// Collects errors, so that the user sees all of them in one build.
#[derive(Default)]
struct Problems(Option<Error>);

impl Problems {
    fn note(&mut self, result: Result<()>) {
        let Err(error) = result else { return };
        match &mut self.0 {
            None => self.0 = Some(error),
            Some(first) => first.combine(error),
        }
    }

    fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
