//! The stores and their configurations.

use std::path::{Path, PathBuf};

use distlock_testkit::Result;
use tokio::process::Command;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The user and group who run the servers: nobody. Some refuse to run as root.
pub(crate) const NOBODY: u32 = 65534;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Etcd,
    ZooKeeper,
    Postgres,
    Mysql,
    Redis,
    Valkey,
    Sqlite,
}

/// A store in one configuration.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) store: Store,
    /// The names of the store and of the configuration.
    pub(crate) name: (&'static str, &'static str),
    /// Arguments of the server, or variables for etcd and a Java option for ZooKeeper.
    settings: &'static [&'static str],
}

const fn setup(
    store: Store,
    name: (&'static str, &'static str),
    settings: &'static [&'static str],
) -> Setup {
    Setup { store, name, settings }
}

/// All configurations. The first of each store is its default, or the one that distlock's
/// documentation requires.
pub(crate) const SETUPS: &[Setup] = &[
    setup(Store::Etcd, ("etcd", "default"), &[]),
    setup(Store::Etcd, ("etcd", "unsafe-no-fsync"), &["ETCD_UNSAFE_NO_FSYNC=true"]),
    setup(Store::ZooKeeper, ("zookeeper", "default"), &[]),
    setup(Store::ZooKeeper, ("zookeeper", "forceSync=no"), &["-Dzookeeper.forceSync=no"]),
    setup(Store::Postgres, ("postgres", "default"), &[]),
    setup(Store::Postgres, ("postgres", "synchronous_commit=off"), &["-csynchronous_commit=off"]),
    setup(Store::Postgres, ("postgres", "full_page_writes=off"), &["-cfull_page_writes=off"]),
    setup(Store::Postgres, ("postgres", "fsync=off"), &["-cfsync=off"]),
    setup(Store::Mysql, ("mysql", "flush=1"), &["--innodb-flush-log-at-trx-commit=1"]),
    setup(Store::Mysql, ("mysql", "flush=2"), &["--innodb-flush-log-at-trx-commit=2"]),
    setup(Store::Mysql, ("mysql", "flush=0"), &["--innodb-flush-log-at-trx-commit=0"]),
    setup(Store::Mysql, ("mysql", "sync_binlog=1"), &["--log-bin=binlog", "--sync-binlog=1"]),
    setup(Store::Mysql, ("mysql", "sync_binlog=0"), &["--log-bin=binlog", "--sync-binlog=0"]),
    setup(Store::Redis, ("redis", "always"), &["--appendfsync", "always"]),
    setup(Store::Redis, ("redis", "everysec"), &["--appendfsync", "everysec"]),
    setup(Store::Redis, ("redis", "no"), &["--appendfsync", "no"]),
    setup(Store::Redis, ("redis", "appendonly=no"), &["--appendonly", "no"]),
    setup(Store::Valkey, ("valkey", "always"), &["--appendfsync", "always"]),
    setup(Store::Valkey, ("valkey", "everysec"), &["--appendfsync", "everysec"]),
    setup(Store::Valkey, ("valkey", "no"), &["--appendfsync", "no"]),
    setup(Store::Sqlite, ("sqlite", "default"), &[]),
];

impl Setup {
    pub(crate) fn find(store: &str, configuration: &str) -> Result<&'static Self> {
        let found = SETUPS.iter().find(|setup| setup.name == (store, configuration));
        Ok(found.ok_or_else(|| format!("no configuration {configuration} of {store}"))?)
    }

    /// Returns the command that creates the server's data if there are none, and starts it with its
    /// data in the folder. `port` and the next three are free.
    pub(crate) fn command(&self, folder: &Path, port: u16) -> Command {
        let settings = || self.settings.iter().map(|it| (*it).to_owned());
        let data = folder.join("data").display().to_string();
        let (package, program, variables, arguments) = match self.store {
            Store::Etcd => {
                let [client, peer] = [port, port + 1].map(|it| format!("http://127.0.0.1:{it}"));
                let mut variables = vec![
                    format!("ETCD_DATA_DIR={data}"),
                    format!("ETCD_LISTEN_CLIENT_URLS={client}"),
                    format!("ETCD_ADVERTISE_CLIENT_URLS={client}"),
                    format!("ETCD_LISTEN_PEER_URLS={peer}"),
                    format!("ETCD_INITIAL_ADVERTISE_PEER_URLS={peer}"),
                    format!("ETCD_INITIAL_CLUSTER=default={peer}"),
                    // It elects itself sooner.
                    "ETCD_HEARTBEAT_INTERVAL=50".to_owned(),
                    "ETCD_ELECTION_TIMEOUT=250".to_owned(),
                ];
                variables.extend(settings());
                ("etcd", "etcd".to_owned(), variables, vec![])
            }
            Store::ZooKeeper => {
                let [leader, election] = [port + 1, port + 2];
                let options = settings().collect::<Vec<_>>().join(" ");
                let java = format!(
                    "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
                     -Dzookeeper.preAllocSize=1024 {options}"
                );
                let variables = vec![
                    format!("JARS={ROOT}/target/trixie/zookeeper/jars"),
                    format!("ZOO_CONF_DIR={data}"),
                    format!("ZOO_DATA_DIR={data}"),
                    format!("ZOO_DATA_LOG_DIR={data}"),
                    format!("ZOO_SERVERS=server.1=127.0.0.1:{leader}:{election};127.0.0.1:{port}"),
                    "ZOO_TICK_TIME=1000".to_owned(),
                    "ZOO_ADMINSERVER_ENABLED=false".to_owned(),
                    "ZOO_CFG_EXTRA=minSessionTimeout=-1 maxSessionTimeout=-1".to_owned(),
                    format!("JVMFLAGS={java}"),
                ];
                ("zookeeper", entrypoint("zookeeper"), variables, vec![])
            }
            Store::Postgres => {
                let mut arguments = vec![
                    "-clisten_addresses=127.0.0.1".to_owned(),
                    "-cunix_socket_directories=".to_owned(),
                    format!("-cport={port}"),
                    "-cshared_buffers=16MB".to_owned(),
                    "-cmax_connections=50".to_owned(),
                    // Nothing on the disk is volatile when the server starts.
                    "-crecovery_init_sync_method=syncfs".to_owned(),
                    // So that some power cuts come during one.
                    "-ccheckpoint_timeout=30s".to_owned(),
                ];
                arguments.extend(settings());
                ("postgres", entrypoint("postgres"), vec![format!("PGDATA={data}/pg")], arguments)
            }
            Store::Mysql => {
                let variables = vec![
                    format!("BASEDIR={ROOT}/target/trixie/mysql/usr"),
                    format!("DATADIR={data}/mysql"),
                    "MYSQL_DATABASE=distlock".to_owned(),
                ];
                let mut arguments = vec![
                    "--bind-address=127.0.0.1".to_owned(),
                    format!("--port={port}"),
                    format!("--socket=/tmp/distlock-power-{port}.socket"),
                    "--innodb-buffer-pool-size=32M".to_owned(),
                    "--innodb-log-file-size=16M".to_owned(),
                    "--performance-schema=OFF".to_owned(),
                ];
                arguments.extend(settings());
                ("mysql", entrypoint("mysql"), variables, arguments)
            }
            Store::Redis | Store::Valkey => {
                let variables = vec![format!("SERVER={}", self.name.0), format!("DATADIR={data}")];
                let mut arguments = vec!["--bind".to_owned(), "127.0.0.1".to_owned()];
                arguments.extend(["--port".to_owned(), port.to_string()]);
                arguments.extend(settings());
                ("redis", entrypoint("redis"), variables, arguments)
            }
            Store::Sqlite => unreachable!("SQLite has no server"),
        };
        // The death of the first process of a namespace kills all others at once. It ends with
        // its parent, and that with this process.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "unshare", "--pid", "--fork", "--"]);
        command.args(["setpriv", "--pdeathsig=KILL"]);
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
        command.args(["--clear-groups", "env", "CERTS=/nonexistent"]).arg(path(package));
        command.args(variables).arg(program).args(arguments).current_dir("/");
        command
    }

    /// Returns the URL of a server at this port.
    pub(crate) fn url(&self, port: u16) -> String {
        let address = format!("127.0.0.1:{port}");
        match self.store {
            Store::Etcd => format!("etcd://{address}"),
            Store::ZooKeeper => format!("zk://{address}"),
            Store::Postgres => format!("postgres://postgres:postgres@{address}/postgres"),
            Store::Mysql => format!("mysql://root:root@{address}/distlock"),
            Store::Redis | Store::Valkey => format!("redis://app:apppw@{address}"),
            Store::Sqlite => unreachable!("SQLite has no server"),
        }
    }
}

fn entrypoint(folder: &str) -> String {
    format!("{ROOT}/docker/{folder}/entrypoint")
}

/// Returns the variable that puts the programs which `tests/up --trixie` has unpacked first.
fn path(package: &str) -> String {
    let unpacked = PathBuf::from(format!("{ROOT}/target/trixie/{package}/programs"));
    let rest = std::env::var("PATH").unwrap_or_default();
    format!("PATH={}:{rest}", unpacked.display())
}
