//! Options of libpq URLs that other stores' URLs do not have.

use std::fs;

use distlock::{Client, Error};
use distlock_testkit::servers::postgres_url;
use tokio::net::{TcpStream, UnixListener};

use crate::common::{close, connected, reason, refused};

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
