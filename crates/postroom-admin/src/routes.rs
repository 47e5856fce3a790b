//! Every route with what it needs: the list that is enforced is the list that is tested.
//!
//! A handler can only be reached through [`Guarded`], which puts the guard in front of it.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts};
use axum::handler::Handler;
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::access::guard::{self, Guard};
use crate::access::{Person, Right, Role};
use crate::desk::Desk;
use crate::pages::sorry;

/// The longest body of a request that carries no message.
const MOST_BYTES: usize = 1024 * 1024;
/// The longest one from somebody who needs no token: that is a form with a token in it.
const MOST_PUBLIC_BYTES: usize = 16 * 1024;
/// The longest body of a request with a message in it: payloads are escaped or encoded there.
const MOST_MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nothing: who has no token may come, too.
    Public,
    /// This right.
    Right(Right),
    /// Both of these.
    Both(Right, Right),
}

impl Need {
    /// The rights that are needed; none for what is public.
    pub fn rights(self) -> impl Iterator<Item = Right> {
        let (first, second) = match self {
            Self::Public => (None, None),
            Self::Right(right) => (Some(right), None),
            Self::Both(first, second) => (Some(first), Some(second)),
        };
        first.into_iter().chain(second)
    }
}

/// A method and a path, with what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `GET`, which stands for `HEAD`, too, or `POST`.
    pub method: Method,
    /// The path below the base path, with its parameters in braces.
    pub path: String,
    /// What a request needs.
    pub need: Need,
}

/// Routes, each with its guard.
#[derive(Default)]
pub(crate) struct Guarded {
    routes: Vec<(Route, MethodRouter<Arc<Desk>>)>,
}

impl Guarded {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Must not change anything.
    pub(crate) fn get<H, T>(self, path: &str, need: Need, handler: H) -> Self
    where
        H: Handler<T, Arc<Desk>>,
        T: 'static,
    {
        self.with(Method::GET, path, need, on(MethodFilter::GET, handler))
    }

    pub(crate) fn post<H, T>(self, path: &str, need: Need, handler: H) -> Self
    where
        H: Handler<T, Arc<Desk>>,
        T: 'static,
    {
        let limit = DefaultBodyLimit::max(match need {
            Need::Public => MOST_PUBLIC_BYTES,
            Need::Right(_) | Need::Both(..) => MOST_BYTES,
        });
        self.with(Method::POST, path, need, on(MethodFilter::POST, handler).layer(limit))
    }

    /// A post whose body has a message in it and may be larger therefore.
    pub(crate) fn post_message<H, T>(self, path: &str, need: Need, handler: H) -> Self
    where
        H: Handler<T, Arc<Desk>>,
        T: 'static,
    {
        let limit = DefaultBodyLimit::max(MOST_MESSAGE_BYTES);
        self.with(Method::POST, path, need, on(MethodFilter::POST, handler).layer(limit))
    }

    fn with(
        mut self,
        method: Method,
        path: &str,
        need: Need,
        handler: MethodRouter<Arc<Desk>>,
    ) -> Self {
        self.routes.push((Route { method, path: path.to_owned(), need }, handler));
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.routes.extend(other.routes);
        self
    }

    /// Puts all of `other` below a path. What is at its `/` is at that path itself.
    pub(crate) fn nest(mut self, prefix: &str, other: Self) -> Self {
        for (mut route, handler) in other.routes {
            route.path = match route.path.as_str() {
                "/" => prefix.to_owned(),
                path => format!("{prefix}{path}"),
            };
            self.routes.push((route, handler));
        }
        self
    }

    pub(crate) fn list(&self) -> Vec<Route> {
        self.routes.iter().map(|(route, _)| route.clone()).collect()
    }

    pub(crate) fn into_router(self, desk: &Arc<Desk>) -> Router {
        let mut router = Router::new();
        for (route, handler) in self.routes {
            let guard = Guard { desk: Arc::clone(desk), need: route.need };
            let guarded = handler.route_layer(from_fn_with_state(guard, guard::check));
            router = router.route(&route.path, guarded);
        }
        router
            .fallback(guard::no_such_path)
            .method_not_allowed_fallback(guard::no_such_method)
            .layer(tower_http::catch_panic::CatchPanicLayer::custom(guard::panicked))
            .layer(from_fn_with_state(Arc::clone(desk), sorry::dress))
            .layer(map_response(guard::seal))
            .with_state(Arc::clone(desk))
    }
}

/// Who makes the request. The guard put it there; without a guard it is nobody with any right.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Person);

impl Deref for Caller {
    type Target = Person;

    fn deref(&self) -> &Person {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nobody = || Self(Person { name: "nobody".into(), role: Role::Viewer, payloads: false });
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(nobody))
    }
}

/// Where the router is mounted, as the browser sees it: empty, or like `/postroom`. Every link and
/// redirect begins with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for Base {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}
