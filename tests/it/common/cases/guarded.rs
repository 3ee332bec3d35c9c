//! Writes that the store applies only while the lock is held, and the gate for writes to other
//! systems.

use std::time::Duration;

use distlock::{Error, FencingGate, LockGuard, LostReason, Write};

use crate::common::{Case, Job, SOON, Sessions, eventually, throughout, within};

/// Returns the values of these keys.
async fn data<const N: usize>(t: &Case, keys: &[String; N]) -> [Option<String>; N] {
    let mut found = keys.each_ref().map(|_| None);
    for (key, found) in keys.iter().zip(&mut found) {
        *found = t.store.data(key).await.map(|value| String::from_utf8(value).expect("text"));
    }
    found
}

/// Expects that the write was refused, or that its outcome is unknown. It must not have been
/// applied.
fn assert_refused(result: Result<(), Error>) {
    let error = result.expect_err("the lock is lost");
    assert!(matches!(error, Error::Lost { .. } | Error::WriteUnconfirmed { .. }), "{error:?}");
    assert!(!error.is_retryable());
}

async fn put(guard: &LockGuard, key: &str, value: &str) {
    within(SOON, "the write returns", guard.put(key, value)).await.expect("written");
}

pub(crate) async fn puts_are_applied_and_overwrite(t: &Case) {
    let client = t.client().await;
    let keys = [t.data_key("put")];
    assert_eq!(data(t, &keys).await, [None]);
    let guard = client.mutex("put").lock().await.expect("granted");
    for value in ["one", "two", ""] {
        put(&guard, &keys[0], value).await;
        assert_eq!(data(t, &keys).await, [Some(value.to_owned())]);
    }
    guard.unlock().await.expect("released");
    // The value belongs to no session: the end of the lock or the client does not delete it.
    client.close().await.expect("closed");
    assert_eq!(data(t, &keys).await, [Some(String::new())]);
    // Any holder may overwrite it.
    let guard = t.client().await.mutex("another").lock().await.expect("granted");
    put(&guard, &keys[0], "three").await;
    guard.delete(&keys[0]).await.expect("deleted");
    assert_eq!(data(t, &keys).await, [None]);
    t.store.erase(&keys[0]).await;
    guard.unlock().await.expect("released");
}

pub(crate) async fn deletes_of_absent_keys_succeed(t: &Case) {
    let guard = t.client().await.mutex("delete").lock().await.expect("granted");
    let keys = [t.data_key("never/there"), t.data_key("there")];
    guard.delete(&keys[0]).await.expect("the key is absent");
    put(&guard, &keys[1], "value").await;
    // Both kinds in one transaction, in either order.
    for _ in 0..2 {
        guard.write(&[Write::delete(&keys[0]), Write::delete(&keys[1])]).await.expect("deleted");
        assert_eq!(data(t, &keys).await, [None, None]);
    }
    t.erase(&keys).await;
    guard.unlock().await.expect("released");
}

pub(crate) async fn several_writes_are_applied_together(t: &Case) {
    let guard = t.client().await.mutex("several").lock().await.expect("granted");
    let keys = [t.data_key("a"), t.data_key("b"), t.data_key("deep/er/c")];
    put(&guard, &keys[1], "old").await;
    let writes = [Write::put(&keys[0], "1"), Write::delete(&keys[1]), Write::put(&keys[2], "3")];
    guard.write(&writes).await.expect("written");
    assert_eq!(data(t, &keys).await, [Some("1".to_owned()), None, Some("3".to_owned())]);
    // The maximum number of writes.
    let many: Vec<_> = (0..64).map(|n| t.data_key(&format!("many-{n}"))).collect();
    let writes: Vec<_> = many.iter().map(|key| Write::put(key, "x")).collect();
    within(SOON, "the write returns", guard.write(&writes)).await.expect("written");
    assert!(t.store.data(&many[0]).await.is_some() && t.store.data(&many[63]).await.is_some());
    // Without the lock, none of them.
    t.store.delete_key(guard.key()).await;
    let writes: Vec<_> = many.iter().map(Write::delete).collect();
    assert_refused(guard.write(&writes).await);
    assert_refused(guard.write(&[Write::put(&keys[1], "2"), Write::delete(&keys[0])]).await);
    assert!(t.store.data(&many[0]).await.is_some() && t.store.data(&many[63]).await.is_some());
    assert_eq!(data(t, &keys).await, [Some("1".to_owned()), None, Some("3".to_owned())]);
    t.erase(many.iter().chain(&keys)).await;
}

/// The store refuses the write before the holder has been notified.
pub(crate) async fn a_put_after_the_key_was_deleted_is_refused(t: &Case) {
    let client = t.client().await;
    let keys = [t.data_key("deleted")];
    for round in 0..5 {
        let guard = client.mutex("deleted").lock().await.expect("granted");
        t.store.delete_key(guard.key()).await;
        let error = within(SOON, "the write returns", guard.put(&keys[0], "late"))
            .await
            .expect_err("the lock is lost");
        assert!(
            matches!(
                &error,
                Error::Lost { name, reason: LostReason::Evicted, .. } if name == "deleted"
            ),
            "{error:?}"
        );
        assert!(!guard.is_valid(), "the guard is lost once a write has reported it");
        assert_eq!(within(SOON, "the loss is notified", guard.lost()).await, LostReason::Evicted);
        assert_eq!(data(t, &keys).await, [None], "round {round}");
    }
    // One key is one lock.
    let guard = client.mutex("deleted").lock().await.expect("granted");
    put(&guard, &keys[0], "in time").await;
    t.store.erase(&keys[0]).await;
    guard.unlock().await.expect("released");
}

pub(crate) async fn a_put_after_the_session_ended_is_refused(t: &Case<dyn Sessions>) {
    let client = t.client().await;
    let keys = [t.data_key("ended")];
    for round in 0..5 {
        let guard = client.mutex("ended").lock().await.expect("granted");
        t.store.end_session_of(guard.key()).await;
        // Immediately, while the client's own deadline is seconds away.
        assert_refused(within(SOON, "the write returns", guard.put(&keys[0], "late")).await);
        assert_eq!(data(t, &keys).await, [None], "round {round}");
        within(SOON, "the loss is notified", guard.lost()).await;
        let error = guard.put(&keys[0], "later").await.expect_err("the lock is lost");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert_eq!(data(t, &keys).await, [None], "round {round}");
    }
}

/// The client's own deadline refuses the write, without a store.
pub(crate) async fn a_put_by_a_holder_that_is_cut_off_ends_in_time(t: &Case) {
    let link = t.link().await;
    let (holder, other) = (t.mortal_client_by(&*link).await, t.client().await);
    let keys = [t.data_key("cut")];
    let (guard, waiter) = t.contended(&holder, &other, "cut").await;
    let ttl = holder.session_ttl();
    link.cut_off(&guard);
    let error = within(ttl * 2, "the write returns", guard.put(&keys[0], "old"))
        .await
        .expect_err("no reply");
    let expected = matches!(
        error,
        Error::WriteUnconfirmed { .. } | Error::Unavailable { .. } | Error::Lost { .. }
    );
    assert!(expected, "{error:?}");
    let successor = waiter.result(ttl + t.store.grace()).await.expect("granted");
    put(&successor, &keys[0], "new").await;
    let error = guard.put(&keys[0], "old").await.expect_err("the lock is lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    link.set_reachable(true);
    // The write that was in flight does not arrive late either.
    throughout(Duration::from_secs(1), "the newer value stays", async || {
        data(t, &keys).await == [Some("new".to_owned())]
    })
    .await;
    t.store.erase(&keys[0]).await;
    successor.unlock().await.expect("released");
}

pub(crate) async fn invalid_writes_are_refused_before_anything_is_sent(t: &Case) {
    let link = t.link().await;
    let client = t.connect(t.builder_for(&link.url())).await;
    let guard = client.mutex("bad").lock().await.expect("granted");
    link.set_reachable(false);
    let (inside, namespace, lock) =
        (format!("{}/x", t.namespace), t.namespace.clone(), guard.key().to_owned());
    let (long, root) = (format!("/{}", "x".repeat(1024)), "/".to_owned());
    let bad =
        ["", "data", "/data/", "//data", "/data/../x", "/data/\0", "/data/😀", "/zookeeper/x"]
            .map(ToOwned::to_owned);
    for key in bad.into_iter().chain([inside, namespace, lock, long, root]) {
        for result in [guard.put(&key, "value").await, guard.delete(&key).await] {
            let error = result.expect_err("an invalid write");
            assert!(
                matches!(error, Error::InvalidArgument { argument: "key", .. }),
                "{key:?}: {error:?}"
            );
            assert!(!error.is_retryable());
        }
    }
    let good = t.data_key("good");
    let many: Vec<_> = (0..65).map(|n| Write::put(t.data_key(&n.to_string()), "x")).collect();
    let twice = [Write::put(&good, "1"), Write::delete(&good)];
    let large = [Write::put(&good, vec![0; 1 << 20])];
    for (writes, expected) in
        [(&[][..], "writes"), (&many, "key"), (&twice, "key"), (&large, "key")]
    {
        match guard.write(writes).await.expect_err("an invalid write") {
            Error::InvalidArgument { argument, .. } => assert_eq!(argument, expected),
            error => panic!("{error:?}"),
        }
    }
    link.set_reachable(true);
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
}

/// Evicted holders keep trying to write.
pub(crate) async fn old_holders_never_write_over_their_successors(t: &Case) {
    let clients = t.clients::<2>().await;
    let keys = [t.data_key("newest")];
    let (mut old, mut tasks) = (None::<LockGuard>, tokio::task::JoinSet::new());
    for round in 0..10 {
        let guard = clients[round % 2].mutex("newest").lock().await.expect("granted");
        put(&guard, &keys[0], &round.to_string()).await;
        if let Some(old) = old.replace(guard) {
            let key = keys[0].clone();
            tasks.spawn(async move {
                while let Err(error) = old.put(&key, "old").await {
                    assert!(
                        matches!(error, Error::Lost { .. } | Error::WriteUnconfirmed { .. }),
                        "{error:?}"
                    );
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                panic!("an old holder has written");
            });
        }
        throughout(Duration::from_millis(30), "no other holder writes", async || {
            data(t, &keys).await == [Some(round.to_string())]
        })
        .await;
        t.store.delete_key(old.as_ref().expect("just put there").key()).await;
    }
    assert!(tasks.try_join_next().is_none(), "an old holder has written");
    tasks.shutdown().await;
    t.store.erase(&keys[0]).await;
}

/// A crashed holder has a successor with a higher token at any gate.
pub(crate) async fn a_gate_refuses_the_tokens_of_old_holders(t: &Case) {
    let gate = FencingGate::new();
    let mut process = t.store.lock_elsewhere(Job::new(t, "gate", t.store.min_ttl())).await;
    let old = within(SOON, "the process has the lock", process.granted()).await;
    gate.admit(old).expect("the first token");
    let waiter = t.enqueue(&t.client().await, "gate").await;
    process.crash().await;
    let successor = waiter.result(t.store.min_ttl() + t.store.grace()).await.expect("granted");
    // No newer token has been admitted, so the gate cannot know.
    gate.admit(old).expect("the highest so far");
    gate.admit(successor.fencing_token()).expect("a higher one");
    let stale = gate.admit(old).expect_err("a stale token");
    assert_eq!((stale.fencing_token.as_u64(), stale.highest), (old, successor.fencing_token()));
    // A gate restored from its stored value refuses the same tokens.
    let again =
        FencingGate::starting_at(gate.highest().expect("two tokens were admitted").as_u64());
    again.admit(old).expect_err("a stale token");
    again.admit(successor.fencing_token()).expect("the same one again");
    successor.unlock().await.expect("released");
    eventually(SOON, "no keys are left", async || t.keys().await.is_empty()).await;
}
