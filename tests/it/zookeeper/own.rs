//! A server of one test, with settings that the shared servers do not have.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use distlock::Client;
use distlock_testkit::docker::{OwnServer, docker};
use distlock_zookeeper_model::Front;
use zookeeper_client as zk;

use crate::common::{
    Case, SOON, eventually,
    zookeeper::{Setup, mode_of},
};

/// The log of the transactions since a server started with an empty disk.
const LOG: &str = "/datalog/version-2/log.1";

/// The length of a log's header (`FileHeader`), after which its transactions begin.
const HEADER: usize = 16;

/// The option that enforces quotas.
pub(crate) const ENFORCE_QUOTAS: &str = "-Dzookeeper.enforceQuota=true";

pub(crate) struct OwnZooKeeper {
    place: Place,
    pub(crate) address: SocketAddr,
}

enum Place {
    Container(OwnServer),
    Model(Front),
}

impl OwnZooKeeper {
    /// Starts a server of the kind that the case has. The model supports [`ENFORCE_QUOTAS`] alone.
    pub(crate) async fn like<const KIND: usize>(_: &Case<Setup<KIND>>, options: &str) -> Self {
        if !Setup::<KIND>::is_model() {
            return Self::start(options).await;
        }
        let front = Front::start().expect("a port");
        if options == ENFORCE_QUOTAS {
            front.with(|model| model.enforce_quotas());
        }
        Self { address: front.address, place: Place::Model(front) }
    }

    /// Starts a server with these Java options.
    pub(crate) async fn start(options: &str) -> Self {
        let java = format!(
            "--env=JVMFLAGS=-Xmx256m -XX:+UseSerialGC -Dzookeeper.forceSync=no \
             -Dzookeeper.preAllocSize=64 -Dznode.container.checkIntervalMs=1000 {options}"
        );
        let run = [
            "--publish=127.0.0.1::2181",
            "--env=ZOO_TICK_TIME=1000",
            "--env=ZOO_MAX_CLIENT_CNXNS=0",
            "--env=ZOO_ADMINSERVER_ENABLED=false",
            "--env=ZOO_4LW_COMMANDS_WHITELIST=*",
            &java,
        ];
        let server = OwnServer::start("zk1", &run, &[]).await;
        Self { address: ready(&server).await, place: Place::Container(server) }
    }

    pub(crate) async fn raw(&self) -> zk::Client {
        zk::Client::connect(&self.address.to_string()).await.expect("the server is ready")
    }

    pub(crate) async fn client(&self, namespace: &str) -> Client {
        let builder = Client::builder(format!("zk://{}", self.address)).namespace(namespace);
        builder.session_ttl(Duration::from_secs(10)).connect().await.expect("a client connects")
    }

    /// Restarts the server as if `created` nodes had been created in the directory of the node
    /// `path` before it. The node has to be created in its own transaction, with open access
    /// rights.
    pub(crate) async fn wear_out(&mut self, path: &str, created: i32) {
        let server = match &mut self.place {
            Place::Container(server) => server,
            Place::Model(front) => {
                let directory = path.rsplit_once('/').expect("a path").0.to_owned();
                return front.with(move |model| model.wear_out(&directory, created));
            }
        };
        let container = server.container().to_owned();
        let file = Temporary(std::env::temp_dir().join(format!("log-{container}")));
        let (there, here) = (format!("{container}:{LOG}"), file.0.to_str().expect("a path"));
        docker(&["cp", &there, here]).await.expect("the server has a log");
        let mut log = fs::read(here).expect("the log was copied");
        set_count(&mut log, path, created);
        fs::write(here, log).expect("the file is writable");
        docker(&["cp", here, &there]).await.expect("the log is replaced");
        server.restart().await;
        self.address = ready(server).await;
    }
}

/// Waits until the server serves, and returns its address, which a restart may change.
async fn ready(server: &OwnServer) -> SocketAddr {
    let address = server.address(2181).await;
    eventually(SOON * 3, "the server is ready", async || mode_of(address).await == "standalone")
        .await;
    address
}

/// A file that is deleted on drop.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Sets the number of nodes ever created in the directory, in the transaction that created `path`
/// (`CreateTxn.parentCVersion`).
fn set_count(log: &mut [u8], path: &str, count: i32) {
    let mut at = HEADER;
    loop {
        // A checksum of 8 bytes, the length, the transaction, and a byte at its end.
        let length = u32::from_be_bytes(log[at + 8..at + 12].try_into().expect("4 bytes"));
        assert!(length > 0, "no transaction has created {path}");
        let begin = at + 12;
        let end = begin + usize::try_from(length).expect("a length");
        let wanted =
            [&u32::try_from(path.len()).expect("a length").to_be_bytes(), path.as_bytes()].concat();
        let found = log[begin..end].windows(wanted.len()).position(|bytes| bytes == wanted);
        if let Some(found) = found {
            let data = begin + found + wanted.len();
            let size = u32::from_be_bytes(log[data..data + 4].try_into().expect("4 bytes"));
            // One ACL entry for `world:anyone`, and the ephemeral flag.
            let rights = 4 + 4 + (4 + "world".len()) + (4 + "anyone".len()) + 1;
            let from = data + 4 + usize::try_from(size).expect("a length") + rights;
            log[from..from + 4].copy_from_slice(&count.to_be_bytes());
            let checksum = u64::from(adler32(&log[begin..end]));
            log[at..at + 8].copy_from_slice(&checksum.to_be_bytes());
            return;
        }
        at = end + 1;
    }
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}
