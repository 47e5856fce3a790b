//! Long work is stopped between two chunks.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use postroom::store::AdminStore;
use postroom::{Message, Outbox};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::cli::Cli;
use crate::{Schema, store, url};

/// The test holds a lock, so that the first chunk waits while the signal arrives.
#[test]
fn cli_1_ctrl_c_stops_between_two_chunks_and_says_what_was_done() {
    let schema = Schema::migrated();
    let cli = &schema.cli;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let store = store(&schema);
    let mut holder = runtime.block_on(async {
        let messages = (0..1_200).map(|_| Message::builder("t").payload("{}"));
        let outbox = Outbox::new(Arc::clone(&store));
        let published = outbox.publish_all(messages).await.expect("publishes");
        let ids: Vec<_> = published.iter().map(|published| published.id).collect();
        assert_eq!(store.discard(&ids).await.expect("discards").applied.len(), 1_200);
        let mut holder = PgConnection::connect(&url()).await.expect("connects");
        // Reading goes on.
        let lock = format!("begin; lock table {}.outbox_settled in exclusive mode", schema.name);
        holder.execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.expect("locks");
        holder
    });
    let ran = interrupted(cli, &schema.name, move || {
        runtime.block_on(async { holder.execute("rollback").await.expect("lets go") });
    });
    assert_eq!(ran.0, Some(130), "{ran:?}");
    assert_eq!(ran.1, "500 messages replayed.\n");
    assert!(ran.2.contains("Stopped; 700 messages left as before."), "{ran:?}");
    let stats = cli.json(&["stats"]);
    assert_eq!((&stats["ready"], &stats["dead"]), (&500.into(), &700.into()), "{stats}");
    assert_eq!(cli.ok(&["replay", "--reason=discarded", "--yes"]), "700 messages replayed.\n");
}

/// Sends SIGINT when the work has begun, then lets it go on.
fn interrupted(cli: &Cli, schema: &str, go_on: impl FnOnce()) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_postroom"))
        .current_dir(cli.folder())
        .args(["--url", &url(), "--schema", schema])
        .args(["replay", "--where=reason=discarded", "--yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("Replaying 1,200 messages; Ctrl-C stops") {
        assert_ne!(stderr.read_line(&mut said).expect("reads"), 0, "it ended early: {said}");
    }
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
    assert!(sent.success());
    go_on();
    stderr.read_to_string(&mut said).expect("reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"), said)
}
