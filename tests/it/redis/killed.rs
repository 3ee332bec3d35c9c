//! A server is killed repeatedly while locks are held and waited for. Its confirmed writes are on
//! disk.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, Error};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    common::{SOON, Waiter, locked, own::TTL, within},
    redis::own::Server,
};

/// The state that all contenders of a lock share.
#[derive(Default)]
struct Seen {
    /// The token of the newest grant.
    newest: AtomicU64,
    grants: AtomicU64,
    over: AtomicBool,
}

/// Repeatedly holds the lock for a while.
async fn contend(client: Client, seen: Arc<Seen>) {
    while !seen.over.load(SeqCst) {
        let guard = match client.mutex("contended").lock().await {
            Ok(guard) => guard,
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                continue;
            }
        };
        let token = guard.fencing_token().as_u64();
        let before = seen.newest.fetch_max(token, SeqCst);
        assert!(before < token || !guard.is_valid(), "{token} is granted after {before}");
        seen.grants.fetch_add(1, SeqCst);
        for _ in 0..10 {
            sleep(Duration::from_millis(fastrand::u64(..20))).await;
            // The order matters: a guard that is valid after the load was valid at the newer grant.
            let newest = seen.newest.load(SeqCst);
            assert!(
                newest == token || !guard.is_valid(),
                "two clients hold the lock: {token} and {newest}"
            );
        }
        let released = guard.unlock().await;
        let is_expected =
            matches!(released, Ok(()) | Err(Error::Lost { .. } | Error::ReleaseUnconfirmed { .. }));
        assert!(is_expected, "{released:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_never_make_two_holders() {
    const KILLS: u64 = 4;
    let mut server = Server::start().await;
    let seen = Arc::<Seen>::default();
    let mut contenders = JoinSet::new();
    for _ in 0..3 {
        let client = server.client().await;
        contenders.spawn(contend(client.clone(), Arc::clone(&seen)));
        contenders.spawn(contend(client, Arc::clone(&seen)));
    }
    let grown = async |by: u64| {
        let begun = seen.grants.load(SeqCst);
        while seen.grants.load(SeqCst) < begun + by {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let [holder, other] = [server.client().await, server.client().await];
    let (mut kept, mut tokens) = (0, Vec::new());
    for _ in 0..KILLS {
        within(SOON * 2, "grants continue", grown(5)).await;
        let guard = locked(&holder, "held").await;
        tokens.push(guard.fencing_token());
        let waiter = Waiter::of(&other, "held");
        server.die().await;
        // By now either the lock is still held or its holder was notified.
        sleep(TTL).await;
        if guard.is_valid() {
            kept += 1;
            let early = !waiter.waits();
            // The holder kept the lock, so a waiter that ended early got an error.
            if guard.unlock().await.is_ok() && early {
                waiter.result(SOON).await.expect_err("two clients hold the lock");
                continue;
            }
        } else {
            within(SOON, "the holder is notified", guard.lost()).await;
        }
        let waited = waiter.result(SOON).await;
        let next = match waited {
            Err(error) if error.is_retryable() => other.mutex("held").lock().await,
            waited => waited,
        };
        let next = next.expect("granted");
        tokens.push(next.fencing_token());
        next.unlock().await.expect("released");
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    within(SOON * 2, "grants continue", grown(5)).await;
    seen.over.store(true, SeqCst);
    within(SOON * 6, "all contenders end", contenders.join_all()).await;
    println!("{kept} of {KILLS} locks were kept, {:?} granted", seen.grants);
}
