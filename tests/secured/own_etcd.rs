//! An etcd for a single test, with users and certificates.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, Tls};
use distlock_testkit::{
    certificates::{Ca, LONG, Pair},
    docker::OwnServer,
};
use etcd_client::{Certificate, ConnectOptions, Identity, Permission, TlsOptions};

use crate::{
    common::{SOON, eventually},
    folder::Folder,
};

/// The name in its certificate, which does not contain its address.
pub(crate) const NAME: &str = "etcd.internal";

/// It requires a certificate and a password: `root` may do everything, `app` may use keys below
/// `/app/`.
pub(crate) struct OwnEtcd {
    _server: OwnServer,
    pub(crate) ca: Ca,
    /// The server's certificates.
    pub(crate) folder: Folder,
    pub(crate) address: SocketAddr,
    pub(crate) operator: etcd_client::Client,
}

pub(crate) const ROOT_PASSWORD: &str = "root-s3cret";
pub(crate) const PASSWORD: &str = "app-s3cret";

impl OwnEtcd {
    /// `token`: the kind of its tokens.
    pub(crate) async fn start(token: &str) -> Self {
        let ca = Ca::new();
        let server = ca.issue("server", &[NAME, "localhost"], LONG);
        let hmac = "hmac-s3cret-of-the-tokens";
        let folder = Folder::new(&[
            ("ca.pem", &ca.pem),
            ("server.pem", &server.certificate),
            ("server-key.pem", &server.key),
            ("hmac", hmac),
        ]);
        let mount = folder.mount();
        let token = format!("--auth-token={token}");
        let run = ["--publish=127.0.0.1::2379", "--entrypoint=etcd", &mount];
        let options = [
            "--listen-client-urls=https://0.0.0.0:2379",
            "--advertise-client-urls=https://127.0.0.1:2379",
            "--cert-file=/secured/current/server.pem",
            "--key-file=/secured/current/server-key.pem",
            "--trusted-ca-file=/secured/current/ca.pem",
            "--client-cert-auth",
            "--auth-token-ttl=5",
            "--bcrypt-cost=4",
            &token,
        ];
        let server = OwnServer::start("etcd1", &run, &options).await;
        let address = server.address(2379).await;
        let pair = ca.issue("operator", &[], LONG);
        let operator = operator(address, &ca, &pair, None).await;
        eventually(SOON, "etcd runs", async || operator.kv_client().get("a", None).await.is_ok())
            .await;
        let mut auth = operator.auth_client();
        auth.user_add("root", ROOT_PASSWORD, None).await.expect("a user");
        auth.role_add("root").await.expect("a role");
        auth.user_grant_role("root", "root").await.expect("granted");
        auth.user_add("app", PASSWORD, None).await.expect("a user");
        auth.role_add("app").await.expect("a role");
        auth.role_grant_permission("app", Permission::read_write("/app/").with_prefix())
            .await
            .expect("granted");
        auth.user_grant_role("app", "app").await.expect("granted");
        auth.auth_enable().await.expect("enabled");
        let root = Some(("root", ROOT_PASSWORD));
        let operator = self::operator(address, &ca, &pair, root).await;
        Self { _server: server, ca, folder, address, operator }
    }

    pub(crate) fn issue(&self, valid: Duration) -> Pair {
        self.ca.issue("client", &[], valid)
    }

    /// Returns TLS settings with a client certificate.
    pub(crate) fn tls(&self) -> Tls {
        let Pair { certificate, key } = self.issue(LONG);
        Tls::new().ca_certificate(&self.ca.pem).client_identity(certificate, key).server_name(NAME)
    }

    /// Returns a builder without credentials.
    pub(crate) fn builder(&self) -> distlock::Builder {
        self.builder_by(self.address)
    }

    pub(crate) fn builder_by(&self, address: SocketAddr) -> distlock::Builder {
        let builder = Client::builder(format!("etcd://{address}")).namespace("/app/locks");
        builder.connect_timeout(Duration::from_secs(3))
    }

    pub(crate) async fn change_password(&self, password: &str) {
        let mut auth = self.operator.auth_client();
        auth.user_change_password("app", password).await.expect("changed");
    }
}

async fn operator(
    address: SocketAddr,
    ca: &Ca,
    pair: &Pair,
    user: Option<(&str, &str)>,
) -> etcd_client::Client {
    let tls = TlsOptions::new()
        .ca_certificate(Certificate::from_pem(&ca.pem))
        .identity(Identity::from_pem(&pair.certificate, &pair.key))
        .domain_name(NAME);
    let mut options = ConnectOptions::new().with_tls(tls).with_auto_token_refresh(true);
    if let Some((user, password)) = user {
        options = options.with_user(user, password);
    }
    let endpoint = format!("https://{address}");
    etcd_client::Client::connect([endpoint], Some(options)).await.expect("a client")
}
