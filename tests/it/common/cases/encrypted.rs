//! Passwords and certificates of stores with a password in the URL.

use std::{error::Error as _, fs, process::Stdio};

use distlock::{Builder, Client, Error, Tls};
use distlock_testkit::{certificates::Ca, child::Child, servers::certificates};

use crate::common::{SOON, close, connected, reason, refused, within};

/// The URL that the process of [`connects_by_its_url`] is given.
const VARIABLE: &str = "DISTLOCK_TEST_ROOTS";

/// A file with the servers' CA, which is removed with its test.
pub(crate) struct CaFile(pub(crate) String);

impl CaFile {
    pub(crate) fn new() -> Self {
        let [ca, ..] = certificates();
        let file = std::env::temp_dir().join(format!("distlock-ca-{:x}.pem", fastrand::u64(..)));
        fs::write(&file, ca).expect("a file");
        Self(file.to_str().expect("a path").to_owned())
    }
}

impl Drop for CaFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(crate) async fn a_lock_is_held_by_tls(url: &str) {
    let ([ca, ..], file) = (certificates(), CaFile::new());
    let mode = if url.starts_with("rediss") { "" } else { "sslmode=verify-full&" };
    let by_url = format!("{url}?{mode}ca_file={}", file.0);
    let by_name = url.replace("127.0.0.1", "localhost");
    for builder in [
        Client::builder(&by_url),
        Client::builder(&by_name).tls(Tls::new().ca_certificate(&ca)),
        Client::builder(url).tls(Tls::new().ca_certificate(&ca).server_name("localhost")),
    ] {
        let namespace = format!("/tls-{:016x}", fastrand::u64(..));
        let client = connected(builder.namespace(namespace)).await;
        let guard = client.mutex("a").lock().await.expect("granted");
        assert!(client.mutex("a").try_lock().await.expect("a reply").is_none());
        guard.unlock().await.expect("released");
        close([client]).await;
    }
}

/// A server whose CA the operating system trusts needs no file. `SSL_CERT_FILE` says whom it
/// trusts.
pub(crate) async fn certificates_are_checked_by_the_roots_of_the_system(url: &str) {
    let [ours, ..] = certificates();
    let modes: &[_] = match url.split_once("://").expect("a scheme").0 {
        "rediss" => &[""],
        "postgres" => &["?sslmode=require", "?sslmode=verify-full&sslrootcert=system"],
        _ => &["?sslmode=require", "?sslmode=verify-full"],
    };
    for mode in modes {
        for (roots, trusted) in [(&ours, true), (&Ca::new().pem, false)] {
            let file = std::env::temp_dir().join(format!("roots-{:x}.pem", fastrand::u64(..)));
            fs::write(&file, roots).expect("a file");
            let mut command = Child::again().expect("this binary");
            command.args(["--exact", "common::cases::encrypted::connects_by_its_url"]);
            command.arg("--nocapture").env(VARIABLE, format!("{url}{mode}"));
            command.env("SSL_CERT_FILE", &file).env_remove("SSL_CERT_DIR").stdin(Stdio::null());
            let ran = within(SOON, "it ends", command.kill_on_drop(true).output()).await;
            let ran = ran.expect("it runs");
            fs::remove_file(&file).expect("it is there");
            let output = String::from_utf8_lossy(&ran.stdout);
            assert_eq!(ran.status.success(), trusted, "{mode}: {output}");
            assert!(output.contains(if trusted { "by its roots" } else { "untrusted CA" }));
        }
    }
}

/// The process of the case above; it does nothing in an ordinary run.
#[tokio::test]
async fn connects_by_its_url() {
    let Ok(url) = std::env::var(VARIABLE) else { return };
    match Client::connect(&url).await {
        Ok(client) => close([client]).await,
        Err(error) => {
            println!("{}", reason(&error));
            std::process::exit(1);
        }
    }
    println!("by its roots");
}

pub(crate) async fn certificate_errors_name_the_cause(url: &str) {
    a_wrong_certificate_is_named(&Client::builder(url)).await;
}

pub(crate) async fn a_wrong_certificate_is_named(builder: &Builder) {
    let [ca, ..] = certificates();
    for (tls, wrong) in [
        (Tls::new().ca_certificate(&Ca::new().pem), "untrusted CA"),
        (Tls::new().ca_certificate(&ca).server_name("example.org"), "not valid for the host"),
    ] {
        let error = refused(builder.clone().tls(tls)).await;
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        let reason = reason(&error);
        assert!(reason.contains(wrong) && reason.contains("127.0.0.1"), "{reason}");
        assert!(!format!("{error:?} {reason}").contains("apppw"));
    }
}

pub(crate) async fn unverifiable_settings_are_refused_before_io(url: &str) {
    let (scheme, _) = url.split_once("://").expect("a scheme");
    let unchecked = Tls::new().ca_certificate_file("/nowhere/ca.pem");
    let unchecked = Client::builder(format!("{scheme}://192.0.2.1/db")).tls(unchecked);
    is_misconfigured(unchecked, "tls").await;
    a_password_in_plain_text_is_refused_before_it_is_sent(url).await;
}

pub(crate) async fn a_password_in_plain_text_is_refused_before_it_is_sent(url: &str) {
    let (scheme, _) = url.split_once("://").expect("a scheme");
    let plain = Client::builder(format!("{scheme}://app:s3cret@192.0.2.1/db"));
    is_misconfigured(plain, "credentials").await;
}

/// With an unreadable CA, or where the password could be read on its way.
pub(crate) async fn is_misconfigured(builder: Builder, wrong: &str) {
    let error = refused(builder).await;
    let found = matches!(&error, Error::InvalidArgument { argument, .. } if *argument == wrong);
    assert!(found, "{wrong}: {error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

pub(crate) async fn denied_logins_are_reported_without_credentials(url: &str) {
    is_denied(Client::builder(url).credentials("app", "wrong-s3cret")).await;
}

/// Fails unless the login is denied with an error that names the server and no password.
pub(crate) async fn is_denied(builder: Builder) {
    let error = refused(builder).await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    let shown = format!("{error} {error:?} {}", error.source().expect("a reason"));
    assert!(!shown.contains("s3cret") && !shown.contains("apppw"), "{shown}");
    assert!(shown.contains("127.0.0.1"), "{shown}");
}
