//! The admin API of a running relay against its own OpenAPI document, asked by schemathesis: no
//! answer is a fault of ours, and each has a status, a type and a shape that the document names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use postroom_servers::process;

use crate::clients;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Every operation but the stream of events, which has no end.
const ENDLESS: &str = "/events";

/// What the answers are held to. Others ask for more than the document promises, such as that no
/// value outside of it is ever taken.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance";

/// A database, and how much is asked of the relay on it.
pub(super) struct Round {
    /// For people.
    pub(super) name: &'static str,
    /// None for a file of its own.
    pub(super) url: Option<String>,
    /// Ways to make up requests, in the words of schemathesis.
    pub(super) phases: &'static str,
    /// Made-up requests for each operation and way, at most.
    pub(super) examples: u32,
}

/// Starts a relay with this binary on each database, and asks.
pub(super) fn check(postroom: &Path, rounds: &[Round]) -> Result<()> {
    let schemathesis = clients::schemathesis()?;
    for round in rounds {
        println!("the admin API on {}", round.name);
        let relay = Relay::start(postroom, round.url.as_deref())?;
        process::run(&mut relay.question(&schemathesis, round))
            .with_context(|| format!("the admin API on {}", round.name))?;
    }
    Ok(())
}

/// A relay with messages, stopped when this goes away.
struct Relay {
    child: Child,
    address: String,
    message: String,
    folder: tempfile::TempDir,
}

impl Relay {
    fn start(postroom: &Path, url: Option<&str>) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a folder")?;
        let schema = format!("contract_{}", std::process::id());
        let command = || {
            let mut command = Command::new(postroom);
            if let Some(url) = url {
                command.args(["--url", url, "--schema", &schema]);
            }
            command.current_dir(folder.path());
            command
        };
        process::capture_ok(command().arg("migrate"))?;
        let mut message = String::new();
        for key in ["a", "a", "b"] {
            let mut enqueue = command();
            enqueue.args(["enqueue", "order.placed", "--payload", r#"{"n":1}"#]);
            message = process::capture_ok(enqueue.args(["--ordering-key", key]))?;
        }
        let (token, said) = (folder.path().join("token"), folder.path().join("said"));
        fs::write(&token, TOKEN).context("cannot write the token")?;
        let child = command()
            .args(["up", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(&token)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said).context("cannot write what it says")?)
            .spawn()
            .context("cannot start the relay")?;
        let message = message.trim().to_owned();
        let mut relay = Self { child, address: String::new(), message, folder };
        relay.address = address(&said)?;
        Ok(relay)
    }

    /// The call of schemathesis. Two who ask the same are answered the same, so it has a seed.
    fn question(&self, schemathesis: &Path, round: &Round) -> Command {
        let document = format!("http://{}/api/v1/openapi.json", self.address);
        let mut command = Command::new(schemathesis);
        command.current_dir(self.folder.path()).arg("--config-file").arg(self.configuration());
        command.args(["run", &document, "--header", &format!("Authorization: Bearer {TOKEN}")]);
        command.args(["--checks", CHECKS, "--phases", round.phases, "--exclude-path", ENDLESS]);
        command.args(["--max-examples", &round.examples.to_string(), "--seed", "1"]);
        // Who is told to come again later does.
        command.args(["--rate-limit", "auto", "--request-timeout", "20"]);
        command.args(["--warnings", "off", "--no-color"]);
        command
    }

    /// Names a message that there is.
    fn configuration(&self) -> PathBuf {
        let file = self.folder.path().join("schemathesis.toml");
        let text = format!(
            "[[operations]]\ninclude-path-regex = \"^/messages/\"\n\
             parameters = {{ \"path.id\" = \"{}\" }}\n",
            self.message
        );
        // Without it schemathesis says so.
        let _ = fs::write(&file, text);
        file
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where it says that it listens.
fn address(said: &Path) -> Result<String> {
    let mut address = None;
    process::wait_until(Duration::from_secs(60), || {
        let text = fs::read_to_string(said).unwrap_or_default();
        address = listening(&text);
        Ok(address.is_some())
    })?;
    match address {
        Some(address) => Ok(address),
        None => bail!("the relay did not start: {}", fs::read_to_string(said).unwrap_or_default()),
    }
}

fn listening(said: &str) -> Option<String> {
    let line = said.split_inclusive('\n').find_map(|line| line.strip_prefix("dashboard: http://"));
    let (address, _) = line?.split_once("/\n")?;
    Some(address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_a_whole_line() {
        let said = "delivering\ndashboard: http://127.0.0.1:4242/\n";
        assert_eq!(listening(said).as_deref(), Some("127.0.0.1:4242"));
        assert_eq!(listening("delivering\ndashboard: http://127.0.0.1:42"), None);
        assert_eq!(listening("delivering\n"), None);
    }
}
