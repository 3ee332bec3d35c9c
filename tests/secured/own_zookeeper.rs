//! A ZooKeeper for these tests, with users and certificates.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use distlock::{Client, Tls};
use distlock_testkit::{
    certificates::{Ca, LONG, Pair},
    docker::OwnServer,
    servers::ask,
};
use tokio::{sync::Mutex, time::sleep};

use crate::{common::poll, folder::Folder};

pub(crate) const PASSWORD: &str = "app-s3cret";
pub(crate) const OTHER_PASSWORD: &str = "other-s3cret";

/// It has a port without TLS, which supports SASL, and one with TLS that requires a certificate.
pub(crate) struct OwnZooKeeper {
    _server: OwnServer,
    pub(crate) ca: Ca,
    _folder: Folder,
    pub(crate) plain: SocketAddr,
    pub(crate) tls: SocketAddr,
}

/// The start of a JVM on a busy machine.
const START: Duration = Duration::from_secs(120);

/// Tests that run at the same time share the server, because it takes seconds to start.
static RUNNING: Mutex<Weak<OwnZooKeeper>> = Mutex::const_new(Weak::new());

impl OwnZooKeeper {
    pub(crate) async fn start() -> Arc<Self> {
        let mut running = RUNNING.lock().await;
        if let Some(server) = running.upgrade() {
            return server;
        }
        let server = Arc::new(Self::another().await);
        *running = Arc::downgrade(&server);
        server
    }

    async fn another() -> Self {
        let ca = Ca::new();
        let server = ca.issue("server", &["127.0.0.1"], LONG);
        let users = format!(
            "Server {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  \
             user_app=\"{PASSWORD}\"\n  user_other=\"{OTHER_PASSWORD}\";\n}};\n"
        );
        let folder = Folder::new(&[
            ("ca.pem", &ca.pem),
            ("server.pem", &format!("{}{}", server.key, server.certificate)),
            ("jaas.conf", &users),
        ]);
        let mount = folder.mount();
        let run = [
            "--publish=127.0.0.1::2181",
            "--publish=127.0.0.1::2281",
            "--env=ZOO_STANDALONE_ENABLED=true",
            "--env=ZOO_SERVERS=server.1=127.0.0.1:2888:3888;2181",
            "--env=ZOO_TICK_TIME=1000",
            "--env=ZOO_ADMINSERVER_ENABLED=false",
            "--env=ZOO_4LW_COMMANDS_WHITELIST=*",
            "--env=ZOO_MAX_CLIENT_CNXNS=0",
            "--env=ZOO_CFG_EXTRA=secureClientPort=2281 \
             serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory \
             ssl.clientAuth=need ssl.keyStore.type=PEM \
             ssl.keyStore.location=/secured/current/server.pem ssl.trustStore.type=PEM \
             ssl.trustStore.location=/secured/current/ca.pem \
             authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "--env=JVMFLAGS=-Xmx128m -XX:+UseSerialGC -Dzookeeper.forceSync=no \
             -Djava.security.auth.login.config=/secured/current/jaas.conf",
            &mount,
        ];
        let server = OwnServer::start("zk1", &run, &[]).await;
        let (plain, tls) = (server.address(2181).await, server.address(2281).await);
        let serves = poll(START, async || {
            sleep(Duration::from_millis(200)).await;
            let status = ask(plain, "srvr", Duration::from_secs(5)).await;
            status.is_ok_and(|status| status.contains("Mode: "))
        });
        if !serves.await {
            panic!("ZooKeeper does not start: {}", server.log().await);
        }
        Self { _server: server, ca, _folder: folder, plain, tls }
    }

    pub(crate) fn issue(&self, valid: Duration) -> Pair {
        self.ca.issue("client", &[], valid)
    }

    /// Returns TLS settings with a client certificate.
    pub(crate) fn material(&self) -> Tls {
        let Pair { certificate, key } = self.issue(LONG);
        Tls::new().ca_certificate(&self.ca.pem).client_identity(certificate, key)
    }

    /// Returns a builder without credentials, for the port without TLS.
    pub(crate) fn builder(&self) -> distlock::Builder {
        self.builder_by(self.plain)
    }

    pub(crate) fn builder_by(&self, address: SocketAddr) -> distlock::Builder {
        let builder = Client::builder(format!("zk://{address}")).namespace(namespace());
        builder.connect_timeout(Duration::from_secs(5))
    }
}

/// Returns a namespace for a single test.
pub(crate) fn namespace() -> String {
    format!("/t-{:016x}", fastrand::u64(..))
}
