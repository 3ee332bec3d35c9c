//! Opening a session on servers that are too old, and on servers that only seem so.

pub(crate) mod script;

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::net::TcpListener;

use crate::{Client, Error, StoreKind};
use script::{
    AUTH_FAILED, Answer, CLOSE_SESSION, EXISTS, GET_EPHEMERALS, MULTI, Server, UNIMPLEMENTED,
};

async fn refusal(server: &Server) -> Error {
    let connecting =
        Client::builder(server.url()).connect_timeout(Duration::from_secs(2)).connect();
    connecting.await.expect_err("it is no server to rely on")
}

/// Servers before 3.6 reply that they do not know the request, and close the connection, so that
/// the reply may be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_up_on_requests_of_3_6_is_refused() {
    for answer in [Answer::HangUp, Answer::Refused(UNIMPLEMENTED)] {
        let old =
            Server::start(move |kind| if kind == EXISTS { Answer::Nothing } else { answer }).await;
        let error = refusal(&old).await;
        let Error::Backend { backend: StoreKind::ZooKeeper, operation: "connecting", source } =
            &error
        else {
            panic!("{error:?}");
        };
        assert!(source.to_string().contains("use ZooKeeper 3.6 or later"), "{source}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_drops_all_requests_is_not_considered_old() {
    let broken = Server::start(|_| Answer::HangUp).await;
    let error = refusal(&broken).await;
    assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error:?}");
    assert!(broken.connections() > 2, "it was tried again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn immediately_lost_connection_is_not_a_refusal() {
    let lost = AtomicBool::new(false);
    let server = Server::start(move |kind| match kind {
        GET_EPHEMERALS if !lost.swap(true, SeqCst) => Answer::HangUp,
        _ => Answer::Nothing,
    })
    .await;
    Client::connect(&server.url()).await.unwrap();
    assert_eq!(server.connections(), 2);
}

/// The reply to the request to end the session may be lost, because the server closes the
/// connection after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_unknown_to_server_counts_as_closed() {
    let server = Server::start(|kind| match kind {
        CLOSE_SESSION => Answer::Ends,
        _ => Answer::Nothing,
    })
    .await;
    let client = Client::connect(&server.url()).await.unwrap();
    client.close().await.unwrap();
    assert_eq!(server.connections(), 2, "it asked again");
}

/// The client crate detects an expired session by its own clock, too, and returns the same error,
/// which is not the reply of a server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_unconfirmed_by_servers_is_not_closed() {
    let server = Server::start(|kind| match kind {
        CLOSE_SESSION => Answer::Vanishes,
        _ => Answer::Nothing,
    })
    .await;
    let client = Client::builder(server.url())
        .session_ttl(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(3))
        .connect()
        .await
        .unwrap();
    let error = client.close().await.expect_err("no server has confirmed it");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(server.connections() > 1, "it asked again");
}

/// The client crate is finished with a session whose credentials a server refuses. The servers keep
/// the session and its nodes until it expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_with_refused_credentials_is_not_closed() {
    let server = Server::start(|kind| match kind {
        MULTI => Answer::Refused(AUTH_FAILED),
        _ => Answer::Nothing,
    })
    .await;
    let builder = Client::builder(server.url()).connect_timeout(Duration::from_secs(1));
    let client = builder.connect().await.unwrap();
    client.mutex("a").lock().await.expect_err("it is refused");
    let error = client.close().await.expect_err("nobody has confirmed it");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_limited_by_ttl_and_connect_timeout() {
    let backend = Server::start(|_| Answer::Nothing).await.backend();
    for (ttl, limit) in [(4, 1000), (10, 2500), (15, 3750), (50, 3750), (86_400, 3750)] {
        let limit = Duration::from_millis(limit);
        assert_eq!(backend.patience(Duration::from_secs(ttl)), limit, "a TTL of {ttl} s");
    }
}

/// However long the TTL is, the connect timeout is sufficient for a silent server and another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_session_is_opened_despite_a_silent_server() {
    let server = Server::start(|_| Answer::Nothing).await;
    // It accepts connections, and never replies.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{},{}", server.url(), silent.local_addr().unwrap());
    let builder = Client::builder(&url)
        .session_ttl(Duration::from_secs(600))
        .connect_timeout(Duration::from_secs(8));
    // The crate tries the servers in random order.
    for connected in join_all((0..8).map(|_| builder.clone().connect())).await {
        connected.unwrap();
    }
}
