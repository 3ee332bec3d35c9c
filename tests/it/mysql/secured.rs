//! Passwords and certificates.

use distlock::{Client, Error};
use distlock_testkit::{docker::OwnServer, servers::mysql_url};

use crate::common::{
    Harness,
    case::{SOON, eventually, within},
    cases_of,
    mysql::Mysql,
};

cases_of! { Mysql, &mysql_url(),
    encrypted::a_lock_is_held_by_tls,
    encrypted::what_is_wrong_with_a_certificate_is_told,
    encrypted::what_cannot_be_checked_is_refused_before_anything_is_sent,
    encrypted::who_is_not_let_in_is_told,
}

/// A server of its own, which has the plugins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_proved_as_the_server_wants() {
    drop(Mysql::start().await);
    let own = OwnServer::start(
        "mysql",
        &["--publish=127.0.0.1::3306", "--env=MYSQL_DATABASE=distlock"],
        &["--plugin-load-add=auth_ed25519", "--plugin-load-add=auth_parsec"],
    )
    .await;
    let address = own.address(3306).await;
    let client = |user: &str, password: &str| {
        Client::connect(format!("mysql://{user}:{password}@{address}/distlock"))
    };
    let is_up = async || client("root", "root").await.is_ok();
    eventually(SOON * 5, "it lets clients in", is_up).await;
    for way in ["ed25519", "parsec", "mysql_native_password"] {
        let sql = format!(
            "--execute=CREATE USER {way} IDENTIFIED VIA {way} USING PASSWORD('apppw'); \
             GRANT ALL ON distlock.* TO {way}"
        );
        own.run(&["mariadb", "--skip-ssl", "--user=root", "--password=root", &sql]).await;
        let connected = within(SOON, "it connects", client(way, "apppw")).await;
        connected.expect("connected").close().await.expect("closed");
        let refused = within(SOON, "it is told", client(way, "wrong")).await;
        assert!(matches!(refused, Err(Error::Denied { .. })), "{way}: {refused:?}");
    }
}
