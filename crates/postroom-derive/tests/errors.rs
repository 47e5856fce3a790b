//! What the compiler says, and where it points, when an event is not one.

#[test]
fn errors_point_at_the_word_that_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/errors/*.rs");
}
