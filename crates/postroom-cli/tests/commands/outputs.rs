//! What people read: every command's output and help, compared with what was approved. To approve a
//! change, run the tests with `INSTA_UPDATE=always` and look at the difference.

use std::time::Duration;

use postroom::{OwnerToken, WorkQueue};

use crate::cli::{Cli, Ran};

/// The output without what differs between two runs: times, other ids, and the spaces by which
/// these move the rest.
fn scrubbed(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<_> = line.split_whitespace().map(scrubbed_word).collect();
        let line = " ".repeat(indent) + &words.join(" ");
        let line = line.replace("<age> ago", "<when>").replace("in <age>", "<when>");
        line.replace("<date> <time>", "<when>")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn scrubbed_word(word: &str) -> String {
    let core = word.trim_matches(|c: char| "(),.;:\"".contains(c));
    let is_digits = |text: &str, mask: &str| {
        text.len() == mask.len()
            && text.chars().zip(mask.chars()).all(|(c, m)| match m {
                'd' => c.is_ascii_digit(),
                'x' => c.is_ascii_hexdigit(),
                m => c == m,
            })
    };
    let uuid = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let is_age = core.len() > 1
        && core.starts_with(|c: char| c.is_ascii_digit())
        && core.ends_with(['s', 'm', 'h', 'd'])
        && core.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c));
    let name = match core {
        _ if core.starts_with("00000000-") => return word.to_owned(),
        _ if is_digits(core, uuid) => "<id>",
        _ if is_digits(core, "dddd-dd-ddTdd:dd:dd.ddddddZ") => "<time>",
        _ if is_digits(core, "dddd-dd-dd") => "<date>",
        _ if is_digits(core, "dd:dd:ddZ") => "<time>",
        _ if is_digits(core, "xxxxxxxx") => "<owner>",
        _ if is_age => "<age>",
        "now" => "<when>",
        _ => return word.to_owned(),
    };
    word.replace(core, name)
}

fn id(last: u8) -> String {
    format!("00000000-0000-7000-8000-00000000000{last}")
}

/// A message that is done, one that is dead, one that failed and one that waits.
fn messages() -> Cli {
    let cli = crate::default();
    let store = crate::store(&cli);
    for (last, topic) in [(1, "order.placed"), (2, "mail.sent"), (3, "mail.sent")] {
        let id = format!("--id={}", id(last));
        cli.enqueue(&[topic, r#"--payload={"order":7}"#, &id, "--tenant=acme", "--header=a=b"]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (queue, worker) = (WorkQueue::new(store), OwnerToken::random());
        let claimed = queue.claim(worker, Duration::from_secs(30), 3).await.expect("claims");
        let [first, second, third] = &claimed.items[..] else { panic!("{claimed:?}") };
        let later = Duration::from_secs(3_600);
        let settled = [
            queue.ack(worker, &[first.lease]).await,
            queue.fail(worker, &[second.lease], "no\u{1b}[2J such mailbox\nat 東京").await,
            queue.abandon_for(worker, &[third.lease], later, "gateway timeout").await,
        ];
        for settled in settled {
            assert_eq!(settled.expect("settles").applied, 1);
        }
    });
    let waits = format!("--id={}", id(4));
    cli.enqueue(&["report.due", "--payload={}", &waits, "--aggregate=report/1", "--due-in=1d"]);
    cli
}

/// The command line and all that it said.
fn told(cli: &Cli, arguments: &[&str]) -> String {
    let Ran { code, stdout, stderr } = cli.run(arguments);
    let code = if code == 0 { String::new() } else { format!("(exit code {code})\n") };
    format!("$ postroom {}\n{stdout}{stderr}{code}\n", arguments.join(" "))
}

#[test]
fn cli_1_looking() {
    let cli = messages();
    let dead = id(2);
    let all: String = [
        &["list"][..],
        &["list", "--where", "status=dead and error~mailbox"],
        &["list", "--topic=nothing"],
        &["list", "--where", "topci=a"],
        &["list", "--limit=1", "--json"],
        &["show", &dead],
        &["show", &dead, "--payload", "--json"],
        &["stats"],
        &["stats", "--json"],
        &["pauses"],
        &["top"],
    ]
    .map(|arguments| told(&cli, arguments))
    .concat();
    insta::assert_snapshot!(scrubbed(&all));
}

#[test]
fn cli_1_changing() {
    let cli = messages();
    let (dead, failed, missing) = (id(2), id(3), id(9));
    let all: String = [
        &["replay"][..],
        &["replay", &dead, "--topic=a"],
        &["replay", &dead, &failed, &missing, "--dry-run"],
        &["replay", "--topic=mail.*", "--dry-run"],
        &["replay", "--topic=mail.*", "--dry-run", "--json"],
        &["replay", "--topic=mail.*"],
        &["replay", "--topic=mail.*", "--yes"],
        &["replay", "--topic=mail.*", "--yes"],
        &["replay", "--status=failed", "--yes"],
        &["discard", "--topic=mail.*", "--yes"],
        &["discard", "--status=failed", "--yes", "--json"],
        &["discard", &dead],
        &["replay", &missing, "--json"],
        &["pause", "--topic=a", "--dry-run"],
        &["pause", "--topic=a", "--reason=full", "--by=ann"],
        &["pause", "--topic=a", "--dry-run"],
        &["pauses"],
        &["resume", "--topic=a", "--dry-run"],
        &["resume", "--topic=a"],
        &["purge"],
        &["purge", "--done=0s", "--dead=30d", "--keys=30d", "--dry-run"],
        &["purge", "--done=0s", "--dry-run", "--json"],
        &["purge", "--done=0s"],
        &["purge", "--done=0s", "--yes"],
        &["purge", "--done=0s", "--yes", "--json"],
        &["enqueue", "a", "--payload={}", "--dry-run"],
        &["enqueue", "a", "--payload={}", "--dry-run", "--json"],
        &["migrate", "--dry-run"],
        &["migrate"],
    ]
    .map(|arguments| told(&cli, arguments))
    .concat();
    insta::assert_snapshot!(scrubbed(&all));
}

#[test]
fn cli_1_help_of_the_commands() {
    let cli = crate::default();
    let commands = [
        "migrate",
        "roles",
        "enqueue",
        "list",
        "show",
        "stats",
        "top",
        "replay",
        "discard",
        "pause",
        "resume",
        "pauses",
        "purge",
        "completions",
        "man",
    ];
    for command in commands {
        let help = cli.ok(&[command, "--help"]);
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{help}");
        insta::assert_snapshot!(format!("help_{command}"), help);
    }
}

#[test]
fn cli_1_every_command_is_in_the_reference_and_in_the_manual() {
    let reference = include_str!("../../../../docs/reference/cli.md");
    let cli = crate::default();
    let help = cli.ok(&["--help"]);
    let commands = help.split("Commands:\n").nth(1).expect("commands").split("\n\n").next();
    let named = commands.expect("a list").lines().filter_map(|line| {
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        line.split_whitespace().next()
    });
    let named: Vec<_> = named.filter(|name| *name != "help").collect();
    assert!(named.len() > 14, "{named:?}");
    let written = cli.ok(&["man", "--dir=man"]);
    assert!(written.starts_with("Wrote "), "{written}");
    for command in named {
        assert!(reference.contains(&format!("| [`{command}`](#")), "{command} is not in the table");
        let page = cli.folder().join(format!("man/postroom-{command}.1"));
        assert!(page.exists(), "no page for {command}");
        // Every option of a command is named in the reference.
        let help = cli.ok(&[command, "--help"]);
        for word in help.split_whitespace().filter(|word| word.starts_with("--")) {
            let option = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let option = option.split(['=', '[']).next().unwrap_or(option);
            assert!(reference.contains(option), "{option} of {command} is not in the reference");
        }
    }
    let page = cli.ok(&["man"]);
    assert!(page.contains(".TH postroom 1") && page.contains("Exit codes"), "{page}");
}

/// The table of exit codes in the reference is the one in the help.
#[test]
fn cli_1_exit_codes_are_documented() {
    let reference = include_str!("../../../../docs/reference/cli.md");
    let help = crate::default().ok(&["--help"]);
    for code in [0, 1, 2, 3, 4, 5, 130] {
        assert!(reference.contains(&format!("\n| {code} | ")), "{code} is not in the reference");
        let line = format!("\n{code:>3}  ");
        assert!(help.contains(&line), "{code} is not in the help");
    }
}

#[test]
fn cli_1_no_color_is_obeyed() {
    let cli = messages();
    for arguments in [&["list"][..], &["stats"], &["list", "--color=never"]] {
        assert!(!cli.ok(arguments).contains('\u{1b}'), "{arguments:?}");
    }
    assert!(
        cli.ok(&["list", "--color=always"]).contains("\u{1b}["),
        "it wins when it is asked for"
    );
}
