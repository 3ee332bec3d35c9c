//! Concurrent calls of one client share requests. Each call gets its own outcome.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use distlock::{Client, LockGuard};
use tokio::task::JoinSet;

use super::{SOON, close, database::Tables, within};

/// More calls than are sent one by one before the rest is batched.
pub(crate) const MANY: usize = 64;

pub(crate) fn names(of: &str) -> Vec<String> {
    (0..MANY).map(|number| format!("{of}-{number:02}")).collect()
}

/// Acquires all locks concurrently, in this order.
pub(crate) async fn lock_at_once(
    client: &Client,
    names: impl IntoIterator<Item = String>,
) -> Vec<LockGuard> {
    let mut tasks = JoinSet::new();
    for name in names {
        let mutex = client.mutex(name);
        tasks.spawn(async move { mutex.lock().await.expect("granted") });
    }
    within(SOON, "all are granted", tasks.join_all()).await
}

pub(crate) async fn unlock_at_once(guards: impl IntoIterator<Item = LockGuard>) {
    let mut tasks = JoinSet::new();
    for guard in guards {
        tasks.spawn(async move { guard.unlock().await.expect("released") });
    }
    within(SOON, "all are released", tasks.join_all()).await;
}

/// Concurrent calls get their own keys and tokens. `stored` selects the keys of the entries and
/// their numbers, separated by a space. The names come in an order other than that of the request.
pub(crate) async fn each_caller_gets_its_own_reply(database: &impl Tables, stored: &str) {
    let client = database.client().await;
    for _ in 0..5 {
        let mut names = names("a");
        fastrand::shuffle(&mut names);
        let guards = lock_at_once(&client, names).await;
        let found = database.ask(stored).await;
        let mut found: HashMap<_, _> =
            found.iter().map(|row| row.rsplit_once(' ').expect("a key and a number")).collect();
        for guard in &guards {
            let token = guard.fencing_token().to_string();
            assert_eq!(found.remove(guard.key()), Some(&*token), "{guard:?}");
        }
        assert!(found.is_empty(), "{found:?}");
        unlock_at_once(guards).await;
        assert!(database.ask(stored).await.is_empty());
    }
    close([client]).await;
}

/// Two clients acquire the same locks concurrently, each in another order.
pub(crate) async fn a_held_lock_is_granted_to_no_other_caller(database: &impl Tables) {
    let clients = [database.client().await, database.client().await];
    let names = names("a");
    let taken: Arc<[AtomicBool]> = names.iter().map(|_| AtomicBool::new(false)).collect();
    let mut tasks = JoinSet::new();
    for client in &clients {
        let mut order: Vec<_> = (0..MANY).collect();
        fastrand::shuffle(&mut order);
        for at in order {
            let (mutex, taken) = (client.mutex(&names[at]), Arc::clone(&taken));
            tasks.spawn(async move {
                for _ in 0..5 {
                    let guard = mutex.lock().await.expect("granted");
                    assert!(!taken[at].swap(true, SeqCst), "another client holds {at}");
                    tokio::task::yield_now().await;
                    taken[at].store(false, SeqCst);
                    guard.unlock().await.expect("released");
                }
            });
        }
    }
    within(SOON * 6, "all locks were granted", tasks.join_all()).await;
    close(clients).await;
}
