use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    backend::{Entry, Joined, LeaveOutcome, SequencePoint, Standing, error::StoreError},
    client::Client,
    lost::LostReason,
    runtime::clock::Instant,
    session::fake_store::FakeStore,
};

#[test]
fn writes_are_checked() {
    let all = |n: usize| (0..n).map(|n| Write::put(format!("/data/{n}"), "x")).collect::<Vec<_>>();
    for good in [
        vec![Write::put("/a", "")],
        vec![Write::delete("/a/b c/é")],
        vec![Write::put("/nsx", "beside the namespace"), Write::delete("/n")],
        vec![Write::put(format!("/{}", "x".repeat(1023)), vec![0; MAX_BYTES - 1024])],
        vec![
            Write::put("/a", vec![0; MAX_BYTES / 2]),
            Write::put("/b", vec![0; MAX_BYTES / 2 - 4]),
        ],
        all(64),
    ] {
        check("/ns", &good).unwrap();
    }
    let put = |key: &str| vec![Write::put(key, "value")];
    let error = check("/ns", &[]).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "writes", .. }), "{error:?}");
    for bad in [
        all(65),
        put(""),
        put("/"),
        put("a"),
        put("/a/"),
        put("//a"),
        put("/a//b"),
        put("/a/./b"),
        put("/.."),
        put("/a\0"),
        put("/a\u{ffff}"),
        put("/😀"),
        put("/a\u{10ffff}"),
        put("/zookeeper/quota"),
        put("/ns"),
        put("/ns/a"),
        put(&format!("/{}", "x".repeat(1024))),
        vec![Write::put("/a", vec![0; MAX_BYTES])],
        vec![
            Write::put("/a", vec![0; MAX_BYTES / 2]),
            Write::put("/b", vec![0; MAX_BYTES / 2 - 3]),
        ],
        vec![Write::put("/a", "1"), Write::delete("/a")],
    ] {
        let error = check("/ns", &bad).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "key", .. }), "{error:?}");
    }
}

/// Acquires a lock in this store.
async fn held(store: &Arc<FakeStore>) -> LockGuard {
    let at = SequencePoint(1);
    store.enqueue.then(0, move || {
        let (entry, standing) = (Entry::new("/ns/a/1", 1), Standing::First);
        Ok(Joined::Queued { entry, standing, at, alive: None, alone: true })
    });
    store.leave.then(0, move || Ok(LeaveOutcome { existed: true, successor: false, at }));
    store.close.then(0, || Ok(()));
    let client = Client::open(store.shared()).await.unwrap();
    client.mutex("a").lock().await.unwrap()
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("no answer".into())
}

/// The result of a write, how often it is sent, and whether the lock is still held.
#[tokio::test(start_paused = true)]
async fn guarded_write_reports_the_store_reply() {
    let gone = || StoreError::SessionGone(LostReason::SessionExpired);
    for (answer, expected, held_on) in [
        (Ok(true), "ok", true),
        (Ok(false), "lost", false),
        (Err((|| StoreError::Unknown("no answer".into())) as fn() -> StoreError), "unknown", true),
        (Err(|| StoreError::Denied("no".into())), "denied", true),
        (Err(|| StoreError::PartlyDenied("no".into())), "unknown", true),
        (Err(gone), "unknown", false),
    ] {
        let store = FakeStore::new();
        store.commit.then(0, move || answer.map_err(|error| error()));
        let guard = held(&store).await;
        let said = match guard.put("/b", "c").await {
            Ok(()) => "ok",
            Err(Error::Lost { .. }) => "lost",
            Err(Error::WriteUnconfirmed { .. }) => "unknown",
            Err(Error::Denied { .. }) => "denied",
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!((said, guard.is_valid()), (expected, held_on));
        assert_eq!(store.asked("commit").len(), 1, "{expected}");
        // No request is sent for a lock that is known to be lost.
        let again = guard.put("/b", "c").await;
        assert_eq!(matches!(again, Err(Error::Lost { .. })), !held_on);
        assert_eq!(store.asked("commit").len(), 1 + usize::from(held_on), "{expected}");
    }
}

/// A write that was not applied, and a read that failed, are repeated for the time of two requests.
#[tokio::test(start_paused = true)]
async fn unapplied_write_is_retried_for_two_request_timeouts() {
    let store = FakeStore::new();
    store.commit.then(0, || Err(unavailable()));
    store.read.then(0, || Err(unavailable()));
    let guard = held(&store).await;
    let began = Instant::now();
    assert!(matches!(guard.put("/b", "c").await, Err(Error::Unavailable { .. })));
    let took = began.elapsed().as_millis();
    assert!((2000..3001).contains(&took), "{took}");
    assert!(store.asked("commit").len() > 5);
    let began = Instant::now();
    assert!(matches!(guard.get("/b").await, Err(Error::Unavailable { .. })));
    assert_eq!(began.elapsed().as_millis(), 2000);
    assert!(store.asked("read").len() > 5);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn guarded_read_fails_after_loss() {
    let store = FakeStore::new();
    store.read.then(100, || Ok(Some(vec![1])));
    let guard = held(&store).await;
    assert_eq!(guard.get("/b").await.unwrap(), Some(vec![1]));
    let lose = async {
        crate::runtime::clock::sleep(Duration::from_millis(50)).await;
        guard.held.own.lose(LostReason::Evicted);
    };
    let (read, ()) = tokio::join!(guard.get("/b"), lose);
    assert!(matches!(read, Err(Error::Lost { .. })), "{read:?}");
    let asked = store.asked("read").len();
    assert!(matches!(guard.get("/b").await, Err(Error::Lost { .. })));
    assert_eq!(store.asked("read").len(), asked);
}

/// A handle writes while its guard is dropped, or replaces its key by a downgrade. No operator has
/// evicted the holder.
#[tokio::test(start_paused = true)]
async fn write_refused_after_release_is_no_eviction() {
    for is_replaced in [false, true] {
        let store = FakeStore::new();
        store.commit.then(100, || Ok(false));
        let guard = held(&store).await;
        let (handle, own) = (guard.handle(), Arc::clone(&guard.held.own));
        let release = async {
            crate::runtime::clock::sleep(Duration::from_millis(50)).await;
            if is_replaced {
                assert!(own.replace());
                return Some(guard);
            }
            drop(guard);
            None
        };
        let (written, _guard) = tokio::join!(handle.put("/b", "c"), release);
        let is_released = matches!(written, Err(Error::Lost { reason: LostReason::Released, .. }));
        assert!(is_released, "{is_replaced}: {written:?}");
        assert_eq!(own.lost_reason(), None, "{is_replaced}");
    }
}

/// The client is closed during a write, and the session's keys are deleted before the write is
/// applied. No operator has evicted the holders.
#[tokio::test(start_paused = true)]
async fn write_refused_after_close_is_no_eviction() {
    for locks in [1, 2] {
        let store = FakeStore::new();
        store.commit.then(100, || Ok(false));
        store.standing.then(0, || Ok(Standing::Evicted));
        let guard = held(&store).await;
        let close = async {
            crate::runtime::clock::sleep(Duration::from_millis(50)).await;
            guard.held.session.deadline.lose(LostReason::ClientClosed);
        };
        let (guards, writes) = (vec![&guard; locks], [Write::delete("/b")]);
        let (written, ()) = tokio::join!(super::write(&guards, &writes), close);
        let Err(Error::Lost { reason, .. }) = written else { panic!("{locks}: {written:?}") };
        assert_eq!(reason, LostReason::ClientClosed, "{locks}");
        assert_eq!(guard.lost_reason(), Some(LostReason::ClientClosed), "{locks}");
    }
}

/// The session of the first lock ended while the second one was being acquired in another session.
#[tokio::test(start_paused = true)]
async fn loss_is_reported_before_an_unsupported_write() {
    let guards = [held(&FakeStore::new()).await, held(&FakeStore::new()).await];
    let written = async || super::write(&[&guards[0], &guards[1]], &[Write::delete("/b")]).await;
    let error = written().await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    guards[0].held.session.deadline.lose(LostReason::SessionExpired);
    let error = written().await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
}
