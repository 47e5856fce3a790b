//! The admin API through its router. Looking, acting and jobs on every store, the rest on SQLite.

// The harnesses of the stores call the crate by its own name.
extern crate postroom as postroom_stores;

/// Each case on every store; what needs a server has its name.
macro_rules! on_every_store {
    ($($case:ident,)*) => {
        on_every_store! { sqlite: crate::world::Sqlite; $($case,)* }
        on_every_store! { postgres: crate::postgres_support::Pg; $($case,)* }
        on_every_store! { mysql: crate::mysql_support::My; $($case,)* }
    };
    ($store:ident: $base:ty; $($case:ident,)*) => {
        mod $store {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case::<$base>().await;
                }
            )*
        }
    };
}

mod access;
mod acts;
mod browse;
mod described;
mod fuzz;
mod jobs;
#[allow(dead_code, reason = "the API needs a part of it")]
#[path = "../../../postroom-stores/tests/mysql/mysql_support.rs"]
mod mysql_support;
#[allow(dead_code, reason = "the API needs a part of it")]
#[path = "../../../postroom-stores/tests/postgres/postgres_support.rs"]
mod postgres_support;
mod world;
