//! RabbitMQ, with its guest account on loopback only and a name server of its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::process::Signal;

use crate::process::{self, Background};
use crate::{Place, Product, account, folder_of, free_port};

const PROGRAM: &str = "rabbitmq-server";

/// What the server writes to its log when it takes connections.
const READY: &str = "Server startup complete";

pub(crate) struct RabbitMq;

impl Product for RabbitMq {
    fn name(&self) -> &'static str {
        "RabbitMQ"
    }

    fn variable(&self) -> &'static str {
        "POSTROOM_TEST_AMQP_URL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["rabbitmq-server"]
    }

    fn user(&self) -> &'static str {
        "rabbitmq"
    }

    /// Not the one on `PATH`: Debian's insists on its own user and folders.
    fn find(&self) -> Option<PathBuf> {
        let packaged = ["/usr/lib/rabbitmq/bin", "/opt/homebrew/opt/rabbitmq/sbin"];
        let mut folders = packaged.iter().map(PathBuf::from);
        let found = folders.find(|folder| folder.join(PROGRAM).is_file());
        found.or_else(|| folder_of(PROGRAM, &["/usr/local/sbin"]))
    }

    fn start(&self, place: &Place<'_>) -> Result<(Background, String)> {
        let port = place.port;
        let mut command = place.server(PROGRAM, "TERM");
        for (name, file) in [
            ("HOME", ""),
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
            ("RABBITMQ_CONFIG_FILE", "config"),
            ("RABBITMQ_CONF_ENV_FILE", "environment"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            command.env(name, place.home.join(file));
        }
        // The node's name and the port of its cluster are taken from the port that it serves, so
        // that a second start finds the files of the first.
        command.env("RABBITMQ_NODENAME", format!("postroom{port}@localhost"));
        command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODE_PORT", port.to_string());
        command.env("RABBITMQ_DIST_PORT", free_port()?.to_string());
        command.env("RABBITMQ_LOGS", "-");
        // Without one of our own it would start a name server that stays behind.
        let names = free_port()?.to_string();
        let mut epmd = account::server(&epmd(), place.account, "TERM");
        epmd.args(["-address", "127.0.0.1", "-port", &names]);
        let epmd = Background::start(&mut epmd, Signal::TERM)?;
        command.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("ERL_EPMD_PORT", &names);
        let server = place.launch(&mut command, Signal::TERM, |log| log.contains(READY))?;
        Ok((server.with(epmd), format!("amqp://guest:guest@127.0.0.1:{port}/%2f")))
    }
}

/// The name server of Erlang.
fn epmd() -> PathBuf {
    process::on_path("epmd").unwrap_or_else(|| Path::new("/usr/bin/epmd").to_path_buf())
}
