//! `postroom bench` on SQLite.

use crate::scratch;
use crate::world::Kind::Sqlite;

#[test]
fn cli_1_figures_are_there_and_no_trace_is() {
    scratch::figures_are_there_and_no_trace_is(Sqlite);
}

#[test]
fn cli_1_an_interrupted_measurement_leaves_no_trace() {
    scratch::an_interrupted_measurement_leaves_no_trace(Sqlite);
}

#[test]
fn cli_1_another_host_is_only_measured_on_demand() {
    let world = crate::world::World::new(Sqlite);
    for url in ["postgres://app:s3cret@db.invalid/app", "mysql://app:s3cret@db.invalid/app"] {
        let ran = world.run(&["bench", "--url", url]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains("--yes") && !ran.stderr.contains("s3cret"), "{ran:?}");
    }
}
