//! A store without the guarantees that locks need is reported in the log, once by each client.

use std::sync::{Mutex, PoisonError};

use distlock::{Client, LostReason};
use distlock_testkit::telemetry::{Signal, listen};
use redis::cmd;

use crate::{
    common::{SOON, locked, redis::FORGETTING, within},
    redis::own::Server,
};

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the warnings logged since the last call.
fn warnings() -> Vec<String> {
    std::mem::take(&mut *WARNINGS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Opens two sessions, the second after the first was lost.
async fn two_sessions(server: &Server) -> Client {
    let client = server.client().await;
    let guard = locked(&client, "a").await;
    let () = server.ask(&cmd("FLUSHALL")).await;
    let reason = within(SOON, "the holder is notified", guard.lost()).await;
    assert!(matches!(reason, LostReason::SessionExpired | LostReason::Evicted), "{reason}");
    drop(guard);
    let guard =
        within(SOON * 2, "the lock is free", client.mutex("a").lock()).await.expect("granted");
    guard.unlock().await.expect("released");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insufficient_durability_is_logged_once_by_each_client() {
    let _listening = listen(|signal| {
        if let Signal::Logged(level, message, ..) = signal
            && level == "WARN"
            && message.starts_with("this store does not guarantee exclusive locks")
            && message.contains("a crash may undo")
        {
            WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        }
    });
    let _no_other = FORGETTING.lock().await;
    drop(warnings());
    let [keeping, forgetting] =
        [Server::start().await, Server::with(&["--appendonly", "no"]).await];
    let client = two_sessions(&keeping).await;
    assert!(client.durability().await.expect("a reply").exclusive);
    client.close().await.expect("closed");
    assert_eq!(warnings(), [""; 0]);
    for _ in 0..2 {
        let client = two_sessions(&forgetting).await;
        assert!(!client.durability().await.expect("a reply").exclusive);
        assert_eq!(warnings().len(), 1);
        client.close().await.expect("closed");
        assert_eq!(warnings(), [""; 0]);
    }
    let bridged = Client::connect(format!("{}?bridge=plain", forgetting.url())).await;
    bridged.expect("connected").close().await.expect("closed");
    let warnings = warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("bridge=plain"), "{warnings:?}");
}
