//! The dashboard in a real browser.

mod dash;

use std::path::Path;
use std::time::Duration;

use dash::Served;
use dash::demo::Demo;
use dash::driver::Browser;

fn is_full() -> bool {
    std::env::var_os("POSTROOM_TEST_FULL").is_some()
}

/// `POSTROOM_PICTURES=docs/images/dashboard cargo test -p postroom-admin --test chromium pictures`
#[tokio::test(flavor = "multi_thread")]
async fn adm_2_pictures() {
    let Some(folder) = std::env::var_os("POSTROOM_PICTURES") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let demo = Demo::open().await;
    let served = Served::start(demo.shop.router()).await;
    let seconds = std::env::var("POSTROOM_PICTURES_AFTER").ok().and_then(|s| s.parse().ok());
    let light = Browser::open(false, 1280, 800).await;
    light.goto(&format!("{}/", served.url)).await;
    tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(60))).await;
    for (name, path) in [
        ("overview", "/"),
        ("messages", "/messages"),
        ("dead", "/dead"),
        ("failures", "/failures"),
        ("topics", "/topics"),
        ("keys", "/keys"),
        ("joins", "/joins"),
        ("dispatchers", "/dispatchers"),
        ("stores", "/stores"),
        ("audit", "/audit"),
        ("inbox", "/messages?box=inbox&store=shop"),
    ] {
        light.goto(&format!("{}{path}", served.url)).await;
        std::fs::write(folder.join(format!("{name}.png")), light.picture().await).expect("write");
        println!("{name} {:?}", light.complaints().await);
    }
    light.close().await;
    let _ = is_full();
}
