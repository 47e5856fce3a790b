//! The command line on SQLite: the default.

mod cli;
mod commands;

use std::sync::Arc;

use cli::Cli;
use postroom::{SqliteStore, StoreConfig};

/// The default: a file in the current folder.
fn default() -> Cli {
    Cli::new(&[])
}

/// A run that has to be refused as invalid.
fn refused(cli: &Cli, arguments: &[&str]) -> String {
    let ran = cli.run(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {ran:?}");
    ran.stderr
}

#[test]
fn cli_1_enqueue_takes_every_field_of_a_message() {
    cli::enqueue_takes_every_field(&default());
}

#[test]
fn cli_1_lists_and_stats_agree() {
    cli::lists_and_stats_agree(&default());
}

/// The store behind a command line.
fn store(cli: &Cli) -> Arc<SqliteStore> {
    cli.ok(&["migrate"]);
    let path = cli.folder().join("postroom.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let opened = SqliteStore::open(path.to_str().expect("UTF-8"), StoreConfig::default());
    Arc::new(runtime.expect("a runtime").block_on(opened).expect("opens"))
}

#[test]
fn adm_1_show_tells_what_happened() {
    let cli = default();
    let store = store(&cli);
    cli::show_tells_what_happened(&cli, store);
}

#[test]
fn adm_1_show_tells_where_a_message_came_from() {
    let cli = default();
    cli::show_tells_the_origin(&cli, store(&cli));
}

#[test]
fn adm_1_dead_letters_are_helped() {
    cli::dead_letters_are_helped(&default());
}

#[test]
fn cli_1_filters_find_and_change() {
    let cli = default();
    cli::filters::find_and_change(&cli, store(&cli));
}

#[test]
fn cli_1_dry_runs_change_nothing() {
    cli::filters::dry_runs_change_nothing(&default());
}

#[test]
fn ret_1_purge_deletes_what_is_old() {
    cli::filters::purge_deletes_what_is_old(&default());
}

#[test]
fn cli_1_a_dry_run_of_migrate_creates_no_file() {
    let cli = default();
    let ran = cli.run(&["migrate", "--dry-run"]);
    assert_eq!(ran.stdout, "Would migrate: there is no database file yet.\n");
    assert_eq!(cli.json(&["migrate", "--dry-run"])["up_to_date"], false);
    assert!(!cli.folder().join("postroom.db").exists());
}

#[test]
fn dsp_10_pauses_are_kept() {
    let cli = default();
    let store = store(&cli);
    cli::pauses_are_kept(&cli, store);
}

#[test]
fn sch_1_an_embedded_database_gets_its_schema_when_it_is_written_to() {
    let cli = default();
    cli.enqueue(&["t", "--payload={}"]);
    assert_eq!(cli.count(), 1);
    let migrated = cli.json(&["migrate"]);
    assert_eq!(migrated["from"], migrated["to"]);
    assert!(cli.ok(&["migrate"]).starts_with("The schema is up to date at version "));
}

#[test]
fn sch_2_migrate_print_shows_the_sql_and_touches_nothing() {
    let cli = default();
    let sql = cli.ok(&["migrate", "--print", "--schema", "messaging"]);
    assert!(sql.contains("create table if not exists messaging_outbox_message"), "{sql}");
    assert!(!cli.folder().join("postroom.db").exists());
    assert!(cli.ok(&["migrate"]).starts_with("Created the schema at version "));
}

#[test]
fn sch_6_a_file_has_no_roles() {
    let cli = default();
    assert!(refused(&cli, &["roles"]).contains("SQLite has no roles"));
    assert!(!cli.folder().join("postroom.db").exists());
}

#[test]
fn cli_1_looking_at_a_file_that_is_not_there_does_not_create_it() {
    let cli = default();
    let id = "019a8a00-0000-7000-8000-000000000001";
    for command in
        [&["list"][..], &["stats"], &["show", id], &["replay", id], &["pause"], &["pauses"]]
    {
        let ran = cli.run(command);
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.stderr.contains("no database file postroom.db"), "{ran:?}");
    }
    assert!(!cli.folder().join("postroom.db").exists());
}

#[test]
fn cli_1_an_empty_list_says_how_to_fill_it() {
    let cli = default();
    cli.ok(&["migrate"]);
    let ran = cli.run(&["list"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.starts_with("No messages. `postroom enqueue"), "{}", ran.stderr);
    assert_eq!(cli.run(&["list", "--topic=x"]).stderr, "No messages match.\n");
    assert_eq!(cli.ok(&["list", "--json"]), "[]\n");
}

#[test]
fn msg_2_every_limit_is_checked_before_anything_is_written() {
    let cli = default();
    cli.ok(&["migrate"]);
    let long = |n: usize| "é".repeat(n);
    let options = [
        ("--content-type", long(256), "content_type must be 1 to 255 characters, got 256"),
        ("--tenant", long(65), "tenant_id must be 1 to 64 characters, got 65"),
        ("--ordering-key", long(256), "ordering_key must be 1 to 255 characters, got 256"),
        ("--aggregate", long(65) + "/7", "aggregate_type must be 1 to 64 characters, got 65"),
        ("--aggregate", "a/".to_owned() + &long(129), "aggregate_id must be 1 to 128 characters"),
        ("--aggregate", "/7".into(), "aggregate_type must be 1 to 64 characters, got 0"),
        ("--aggregate", "order".into(), "expected TYPE/ID"),
        ("--correlation-id", long(256), "correlation_id must be 1 to 255 characters, got 256"),
        ("--causation-id", long(256), "causation_id must be 1 to 255 characters, got 256"),
        ("--header", "nö=1".into(), "header"),
        ("--header", "a=1\n2".into(), "header"),
        ("--header", format!("a={}", "x".repeat(16 * 1024)), "headers must be at most 16384"),
        ("--header", "novalue".into(), "expected NAME=VALUE"),
        ("--key", "7".into(), "idempotency_key must be a UUID"),
        ("--id", "7".into(), "message id must be a UUID, got \"7\""),
        ("--priority", "101".into(), "101 is not in -100..=100"),
        ("--priority", "-101".into(), "-101 is not in -100..=100"),
        ("--due-in", "soon".into(), "expected a duration such as 10s"),
        ("--due-at", "2030-01-31".into(), "expected a time with its offset"),
        ("--expires-in", "-5s".into(), "a duration can not be negative"),
    ];
    for (option, value, expected) in options {
        let error = refused(&cli, &["enqueue", "t", "--payload={}", &format!("{option}={value}")]);
        assert!(error.contains(expected), "{option}: {error}");
    }
    for (topic, expected) in [
        (long(256), "topic must be 1 to 255 characters, got 256"),
        (String::new(), "topic must be 1 to 255 characters, got 0"),
        ("a\nb".into(), "topic must be free of control characters, got '\\n'"),
    ] {
        let error = refused(&cli, &["enqueue", &topic, "--payload={}"]);
        assert!(error.contains(expected), "{error}");
    }
    let large = [b"\"".as_slice(), &vec![b'x'; 1024 * 1024], b"\""].concat();
    let ran = cli.run_with_input(&["enqueue", "t"], &large);
    assert_eq!(ran.code, 2, "{ran:?}");
    let expected = "payload must be at most 1048576 bytes, got 1048578 bytes";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert_eq!(cli.count(), 0);
}

#[test]
fn cli_1_payloads_come_from_an_option_a_file_or_a_pipe() {
    let cli = default();
    std::fs::write(cli.folder().join("order.json"), r#"{"order":7}"#).expect("writes");
    std::fs::write(cli.folder().join("binary"), [0xff, 0x00]).expect("writes");
    let payload = |id: &str| {
        let shown = cli.json(&["show", id, "--payload"]);
        (shown["payload"].clone(), shown["payload_encoding"].clone())
    };
    let from_file = cli.enqueue(&["t", "--payload-file=order.json"]);
    assert_eq!(payload(&from_file), (r#"{"order":7}"#.into(), "utf-8".into()));
    let binary =
        cli.enqueue(&["t", "--payload-file=binary", "--content-type=application/octet-stream"]);
    assert_eq!(payload(&binary), ("ff00".into(), "hex".into()));
    assert!(
        cli.ok(&["show", &binary, "--payload"]).contains("Payload (binary)\n  00000000  ff 00")
    );
    for arguments in [&["enqueue", "t"][..], &["enqueue", "t", "--payload-file=-"]] {
        let ran = cli.run_with_input(arguments, b"[1]");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(payload(ran.stdout.trim()).0, "[1]");
    }
    let empty = cli.enqueue(&["t", "--payload="]);
    assert_eq!(payload(&empty).0, "");

    let error = refused(&cli, &["enqueue", "t", "--payload=hello"]);
    assert!(error.contains("payload must be JSON when no --content-type is given"), "{error}");
    let error = refused(&cli, &["enqueue", "t", "--payload-file=missing"]);
    assert!(error.contains("can not read the payload from missing"), "{error}");
    refused(&cli, &["enqueue", "t", "--payload={}", "--payload-file=order.json"]);
    assert_eq!(cli.count(), 5);
}

#[test]
fn cli_1_wrong_usage_is_exit_code_2() {
    let cli = default();
    for arguments in [
        &["bogus"][..],
        &[],
        &["list", "--limit=0"],
        &["list", "--limit=501"],
        &["list", "--status=lost"],
        &["show", "7"],
        &["list", "--schema=Bad Name"],
        &["enqueue", "t", "--payload={}", "--queue=inbox"],
        &["enqueue", "t", "--payload={}", "--due-in=1s", "--due-at=2030-01-01T00:00:00Z"],
        &["stats", "--url=oracle://localhost/app"],
    ] {
        refused(&cli, arguments);
    }
}

#[test]
fn cli_1_help_names_the_exit_codes_and_completions_are_scripts() {
    let cli = default();
    let help = cli.ok(&["--help"]);
    assert!(help.contains("Exit codes:") && help.contains("3  no such message"), "{help}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(cli.ok(&["completions", shell]).contains("enqueue"), "{shell}");
    }
}

#[test]
fn cli_1_boxes_and_prefixes_are_apart() {
    let cli = default();
    cli.enqueue(&["t", "--payload={}"]);
    assert_eq!(cli.json(&["list", "--queue=inbox"]), serde_json::json!([]));
    assert_eq!(cli.json(&["list", "--prefix=other_"]), serde_json::json!([]));
    assert_eq!(cli.json(&["stats", "--queue=inbox"])["queue"], "inbox");
    assert_eq!(cli.count(), 1);
}

#[test]
fn cli_1_colours_are_for_terminals_unless_asked_for() {
    let cli = default();
    let id = cli.enqueue(&["t", "--payload={}"]);
    for arguments in [&["list"][..], &["stats"], &["show", &id]] {
        assert!(!cli.ok(arguments).contains('\u{1b}'), "{arguments:?}");
        let colored = [arguments, &["--color=always"]].concat();
        assert!(cli.ok(&colored).contains('\u{1b}'), "{colored:?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_an_error_that_names_it() {
    let cli = default();
    std::fs::write(cli.folder().join("postroom.db"), "x".repeat(4096)).expect("writes");
    let ran = cli.run(&["list"]);
    assert!([1, 5].contains(&ran.code), "{ran:?}");
    assert!(ran.stderr.contains("file is not a database"), "{ran:?}");
}
