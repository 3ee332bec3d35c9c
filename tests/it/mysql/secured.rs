//! Passwords and certificates.

use distlock::{Client, Error};
use distlock_testkit::servers::mysql_url;

use crate::{
    common::{
        cases_of, close, connected,
        mysql::{Mysql, PROGRAM},
        refused,
    },
    mysql::settings::own,
};

cases_of! { Mysql, &mysql_url(),
    encrypted::a_lock_is_held_by_tls,
    encrypted::certificate_errors_name_the_cause,
    encrypted::certificates_are_checked_by_the_roots_of_the_system,
    encrypted::unverifiable_settings_are_refused_before_io,
    encrypted::denied_logins_are_reported_without_credentials,
}

/// A server of the test with the plugins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authentication_plugins_of_the_server_are_supported() {
    let plugins = ["--plugin-load-add=auth_ed25519", "--plugin-load-add=auth_parsec"];
    let (server, url) = own(&[], &plugins).await;
    let client = |user: &str, password: &str| {
        Client::builder(url.replace("root:root", &format!("{user}:{password}")))
    };
    for plugin in ["ed25519", "parsec", "mysql_native_password"] {
        let sql = format!(
            "CREATE USER {plugin} IDENTIFIED VIA {plugin} USING PASSWORD('apppw'); \
             GRANT ALL ON distlock.* TO {plugin}"
        );
        server.own.run(&[&PROGRAM[..], &[&sql]].concat()).await;
        close([connected(client(plugin, "apppw")).await]).await;
        let error = refused(client(plugin, "wrong")).await;
        assert!(matches!(error, Error::Denied { .. }), "{plugin}: {error:?}");
    }
}
