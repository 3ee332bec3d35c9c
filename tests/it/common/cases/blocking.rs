//! The blocking API on a store's servers. Other cases check the outcomes. This one checks that no
//! thread blocks for ever.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use distlock::{Builder, Client, blocking::Wait};

use crate::common::Case;

/// Runs all blocking calls on threads without a runtime, and then on a thread of a runtime.
pub(crate) async fn threads_take_turns(t: &Case) {
    let builder = t.builder();
    tokio::task::spawn_blocking({
        let builder = builder.clone();
        // A std thread: one of tokio's would have entered a runtime.
        || thread::spawn(move || take_turns(&builder)).join().expect("the thread panicked")
    })
    .await
    .expect("the thread panicked");
    take_turns(&builder);
}

fn take_turns(builder: &Builder) {
    let connect = || builder.clone().connect().wait().expect("the servers are up");
    let clients = [connect(), connect()];
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| {
                for _ in 0..10 {
                    let guard = client.mutex("a").lock().wait().expect("granted");
                    assert_eq!(
                        inside.fetch_add(1, Ordering::SeqCst),
                        0,
                        "the lock has two holders"
                    );
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.unlock().wait().expect("released");
                }
            });
        }
    });
    wait_for_everything(&clients);
    for client in clients {
        client.close().wait().expect("the servers are up");
    }
}

fn wait_for_everything([client, other]: &[Client; 2]) {
    let short = Duration::from_millis(50);
    let guard =
        client.mutex("a").try_lock().wait().expect("the servers are up").expect("the lock is free");
    assert!(other.mutex("a").lock_timeout(short).wait().expect("the servers are up").is_none());
    assert_eq!(guard.lost().wait_timeout(short), None);
    assert!(other.mutex("a").request_release("please").wait().expect("the servers are up"));
    assert_eq!(guard.release_requested().wait().reason(), "please");
    guard.unlock().wait().expect("released");

    let writer = client.rw_lock("a").write().wait().expect("the lock is free");
    let reader = writer.downgrade().wait().expect("the lock is held");
    other.rw_lock("a").read().wait().expect("readers share").unlock().wait().expect("released");
    reader.unlock().wait().expect("released");
    let permit = client.semaphore("a", 2).acquire_many(2).wait().expect("the locks are free");
    assert!(other.semaphore("a", 2).try_acquire().wait().expect("the servers are up").is_none());
    permit.release().wait().expect("released");
    client
        .lock_all(["b", "a"])
        .wait()
        .expect("the locks are free")
        .unlock()
        .wait()
        .expect("released");

    let election = client.election("a");
    let leadership = election.campaign("one").wait().expect("no other candidate");
    let mut leaders = other.election("a").observe().expect("the name is good");
    assert_eq!(leaders.next().wait().expect("the client is open").value(), b"one");
    leadership.proclaim("two").wait().expect("the candidate leads");
    assert_eq!(leaders.next().wait().expect("the client is open").value(), b"two");
    leadership.resign().wait().expect("the leader led");
}
