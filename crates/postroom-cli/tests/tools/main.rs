//! `import`, `doctor` and `bench`: the built binary on each database. Modules that have the name of
//! a server need it: `cargo xtask test` starts them.

mod bench_mysql;
mod bench_postgres;
mod bench_sqlite;
mod doctor_mysql;
mod doctor_postgres;
mod doctor_sqlite;
mod import_mysql;
mod import_postgres;
mod import_sqlite;
mod old_tables;
mod patient;
mod scratch;
mod world;
