//! `postroom bench` on PostgreSQL.

use crate::scratch;
use crate::world::Kind::Postgres;

#[test]
fn cli_1_figures_are_there_and_no_trace_is() {
    scratch::figures_are_there_and_no_trace_is(Postgres);
}

#[test]
fn cli_1_an_interrupted_measurement_leaves_no_trace() {
    scratch::an_interrupted_measurement_leaves_no_trace(Postgres);
}
