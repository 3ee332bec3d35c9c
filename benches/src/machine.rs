//! The machine, date and versions of a run.

use std::{collections::BTreeMap, process::Command};

use distlock_testkit::servers::ask;
use serde::Serialize;

use crate::{
    Result,
    args::Bench,
    backend::Backend,
    counters::{TIME_LIMIT, info},
    sql::Connection,
};

/// The versions that this program was built from.
const LOCKED: &str = include_str!("../../Cargo.lock");
const CRATES: [&str; 10] = [
    "distlock",
    "etcd-client",
    "tokio",
    "tonic",
    "zookeeper-client",
    "asyncs",
    "tokio-postgres",
    "mysql_async",
    "redis",
    "rusqlite",
];

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) rustc: String,
    pub(crate) servers: BTreeMap<Backend, String>,
    pub(crate) crates: BTreeMap<&'static str, &'static str>,
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_mb: u64,
    pub(crate) kernel: String,
}

impl Machine {
    pub(crate) async fn look(bench: &Bench) -> Result<Self> {
        let mut servers = BTreeMap::new();
        for backend in &bench.backends {
            servers.insert(*backend, version(*backend, bench.single(*backend)).await?);
        }
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches([':', ' ', '\t']).to_owned()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kb: u64 =
            memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
        Ok(Self {
            date: say("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: say("git", &["describe", "--always", "--dirty", "--abbrev=12"]),
            rustc: say("rustc", &["--version"]),
            servers,
            crates: CRATES.into_iter().filter_map(|name| Some((name, locked(name)?))).collect(),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mb: memory_kb / 1024,
            kernel: say("uname", &["-sr"]),
        })
    }

    /// As one line.
    pub(crate) fn line(&self) -> String {
        let versions =
            |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>().join(", ");
        let servers =
            versions(&mut self.servers.iter().map(|(name, version)| format!("{name} {version}")));
        let crates =
            versions(&mut self.crates.iter().map(|(name, version)| format!("{name} {version}")));
        format!(
            "{}, commit {}; {servers}; {crates}; {} × {}, {}",
            self.date, self.commit, self.processors, self.processor, self.kernel
        )
    }
}

async fn version(backend: Backend, servers: &[String]) -> Result<String> {
    let server = servers.first().ok_or("no server")?;
    Ok(match backend {
        Backend::Etcd => {
            let answer = ask(server, "GET /version HTTP/1.0\r\n\r\n", TIME_LIMIT).await?;
            let body = answer.lines().last().unwrap_or_default();
            let versions: BTreeMap<String, String> = serde_json::from_str(body)?;
            versions.get("etcdserver").cloned().unwrap_or_default()
        }
        Backend::ZooKeeper => {
            let answer = ask(server, "srvr", TIME_LIMIT).await?;
            let line = answer.lines().next().unwrap_or_default();
            line.trim_start_matches("Zookeeper version: ")
                .split(['-', ','])
                .next()
                .unwrap_or_default()
                .to_owned()
        }
        Backend::Redis | Backend::Redlock => {
            let info = info(server).await?;
            let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
            version.unwrap_or_default().trim().to_owned()
        }
        sql => {
            let asked = match sql {
                Backend::Postgres => "SHOW server_version",
                Backend::Mysql => "SELECT VERSION()",
                _ => "SELECT sqlite_version()",
            };
            let reply = Connection::open(sql, servers).await?.read(asked).await?;
            reply.first().cloned().unwrap_or_default()
        }
    })
}

fn locked(name: &str) -> Option<&'static str> {
    let after = LOCKED.split_once(&format!("name = \"{name}\"\n"))?.1;
    after.lines().next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// The output of a program.
fn say(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
