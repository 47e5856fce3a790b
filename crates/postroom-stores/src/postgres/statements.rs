//! The statements of one box, rendered once with the configured names.

use sqlx::SqlStr;

use crate::names::Names;

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// One field per file in `sql/postgres`.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr,)*
        }

        impl Statements {
            pub(crate) fn new(names: &Names) -> Self {
                Self {
                    // A clone is shared text; the original would be copied by each later clone.
                    $($name: names
                        .render_qualified(include_str!(concat!(
                            "../../sql/postgres/", stringify!($name), ".sql"
                        )))
                        .clone(),)*
                }
            }

            /// All of them by name.
            #[cfg(test)]
            pub(crate) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![$((stringify!($name), self.$name.clone()),)*]
            }
        }
    };
}

statements!(
    append,
    append_lookup,
    append_undo,
    attempts,
    claim,
    get,
    list,
    purge,
    purge_keys,
    reap,
    renew,
    schema_version,
    settle,
    settle_done,
    stats,
);
