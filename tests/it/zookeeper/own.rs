//! A single server of one test's own, with settings that the others do not have.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use distlock::Client;
use distlock_testkit::docker::{OwnServer, docker};
use distlock_zookeeper_model::Front;
use zookeeper_client as zk;

use crate::common::{
    Case, SOON, eventually,
    zookeeper::{Setup, mode_of},
};

/// Where the transactions are that a server has seen since it was started with an empty disk.
const LOG: &str = "/datalog/version-2/log.1";

/// After this begin the transactions in a log (`FileHeader`).
const HEADER: usize = 16;

/// Enforces quotas.
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
    /// One of the same kind as the servers of a case. The model knows [`ENFORCE_QUOTAS`] alone.
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

    /// With these Java options.
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
        zk::Client::connect(&self.address.to_string()).await.expect("it is ready")
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
        docker(&["cp", &there, here]).await.expect("there is a log");
        let mut log = fs::read(here).expect("it was copied");
        set_count(&mut log, path, created);
        fs::write(here, log).expect("it can be written");
        docker(&["cp", here, &there]).await.expect("it is put back");
        server.restart().await;
        self.address = ready(server).await;
    }
}

/// Waits until it serves; where it does, as that may change.
async fn ready(server: &OwnServer) -> SocketAddr {
    let address = server.address(2181).await;
    eventually(SOON * 3, "the server is ready", async || mode_of(address).await == "standalone")
        .await;
    address
}

/// A file that is gone in the end.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Sets the number of nodes ever created in the directory, in the transaction that created this one
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
            // One entry of rights for `world:anyone`, and that it is not ephemeral.
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
