//! Options of libpq URLs that other stores' URLs do not have.

use std::{fs, process::Stdio};

use distlock::{Client, Error};
use distlock_testkit::{
    certificates::Ca,
    child::Child,
    servers::{certificates, postgres_url},
};
use tokio::net::{TcpStream, UnixListener};

use crate::common::{SOON, close, connected, reason, refused, within};

/// The variable with the URL for the process of [`connects_by_its_url`].
const VARIABLE: &str = "DISTLOCK_TEST_ROOTS";

/// A server whose CA the operating system trusts needs no CA file. `SSL_CERT_FILE` sets the trusted
/// CAs.
#[tokio::test]
async fn certificates_are_checked_by_the_roots_of_the_system() {
    let [ours, ..] = certificates();
    for mode in ["require", "verify-full&sslrootcert=system"] {
        for (roots, trusted) in [(&ours, true), (&Ca::new().pem, false)] {
            let file = std::env::temp_dir().join(format!("roots-{:x}.pem", fastrand::u64(..)));
            fs::write(&file, roots).expect("a file");
            let mut command = Child::again().expect("this binary");
            command.args(["--exact", "postgres::urls::connects_by_its_url", "--nocapture"]);
            command.env(VARIABLE, format!("{}?sslmode={mode}", postgres_url()));
            command.env("SSL_CERT_FILE", &file).env_remove("SSL_CERT_DIR").stdin(Stdio::null());
            let ran = within(SOON, "the process ends", command.kill_on_drop(true).output()).await;
            let ran = ran.expect("the process runs");
            fs::remove_file(&file).expect("the file exists");
            let output = String::from_utf8_lossy(&ran.stdout);
            assert_eq!(ran.status.success(), trusted, "{mode}: {output}");
            assert!(output.contains(if trusted { "by its roots" } else { "another CA" }));
        }
    }
}

/// The process of the test above, which does nothing in an ordinary run.
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

/// The server's own socket is inside its container, so this one forwards to the server's port.
#[tokio::test]
async fn a_unix_socket_is_a_host() {
    let folder = std::env::temp_dir().join(format!("distlock-socket-{:x}", fastrand::u64(..)));
    fs::create_dir(&folder).expect("a folder");
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket");
    let server = postgres_url();
    let (_, after) = server.split_once('@').expect("a user");
    let (host, database) = after.split_once('/').expect("a database");
    let host = host.to_owned();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(&host).await.expect("the server");
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let path = folder.to_str().expect("UTF-8");
    let escaped = path.replace('/', "%2F");
    for url in [
        format!("postgres://app:apppw@{escaped}/{database}"),
        format!("postgres://app:apppw@/{database}?host={path}"),
    ] {
        let namespace = format!("/socket-{:016x}", fastrand::u64(..));
        let client = connected(Client::builder(&url).namespace(namespace)).await;
        let guard = client.mutex("a").lock().await.expect("granted");
        guard.unlock().await.expect("released");
        close([client]).await;
    }
    // The server requires a password of this user, and the URL has none.
    let error = refused(Client::builder(format!("postgres://app@{escaped}/{database}"))).await;
    assert!(matches!(error, Error::Denied { .. } | Error::Unavailable { .. }), "{error:?}");
    assert!(reason(&error).contains("password"), "{}", reason(&error));
    fs::remove_dir_all(&folder).expect("the folder exists");
    let error = refused(Client::builder(format!("postgres://app:a@{escaped}/{database}"))).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(reason(&error).contains(path), "{}", reason(&error));
}
