//! The example of two services, run as it stands.

#![cfg(feature = "sqlite")]

#[allow(dead_code, reason = "the example's own main is not called")]
#[path = "../../../examples/two_services.rs"]
mod two_services;

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_every_order_of_the_example_has_one_invoice() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let figures = two_services::run(folder.path()).await.expect("both services run");
    let shown = "\
orders placed              10
messages delivered         20
  of them duplicates       10
handlers that failed        5
invoices written           10
  for different orders     10
invoice.created to send    10
";
    assert_eq!(two_services::table(&figures), shown);
}
