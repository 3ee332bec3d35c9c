//! When sessions are opened and ended, on a paused clock.

use std::{fs, process};

use distlock_fork::{Fork, ends_within};
use futures_util::FutureExt;

use super::*;
use crate::{
    backend::SequencePoint,
    lost::LostReason,
    runtime::{
        clock::{sleep, timeout},
        random,
    },
    session::fake_store::FakeStore,
};

const GONE: LostReason = LostReason::SessionExpired;

fn silent() -> StoreError {
    StoreError::Unavailable("no answer".into())
}

fn closing() -> Arc<FakeStore> {
    let store = FakeStore::new();
    store.close.then(0, || Ok(()));
    store
}

/// `open` tries once. A session that is opened later is retried for the connect timeout.
#[tokio::test(start_paused = true)]
async fn openings_are_repeated_while_there_is_time() {
    for (error, once, insisted) in [
        (silent as fn() -> StoreError, 1, 8..=15),
        (|| StoreError::Unknown("no answer".into()), 1, 8..=15),
        (|| StoreError::Denied("no".into()), 1, 1..=1),
    ] {
        let store = FakeStore::new();
        store.open.then(0, move || Err(error()));
        assert!(Sessions::open(store.shared()).await.is_err());
        assert_eq!(store.asked("open").len(), once, "{:?}", error());
        let store = FakeStore::new();
        store.open.then(0, move || Err(error()));
        let sessions = Sessions::lazy(store.shared());
        let began = Instant::now();
        assert!(sessions.any().await.is_err());
        let asked = store.asked("open").len();
        assert!(insisted.contains(&asked), "{:?}: {asked}", error());
        let took = began.elapsed();
        assert_eq!(took >= Duration::from_millis(4900), asked > 1, "{took:?}");
        assert!(took < Duration::from_millis(6100), "{took:?}");
        assert!(!sessions.is_opened());
    }
    // A store that never replies takes no longer.
    let store = FakeStore::new();
    store.open.then(60_000, || Ok(()));
    let began = Instant::now();
    let error = Sessions::lazy(store.shared()).any().await.unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    assert!((5000..5100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_a_session() {
    let store = closing();
    store.open.then(100, || Ok(()));
    let sessions = Sessions::lazy(store.shared());
    assert_eq!((sessions.remaining(), sessions.is_opened()), (None, false));
    let (one, other) = tokio::join!(sessions.any(), sessions.any());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(Arc::ptr_eq(&one, &other) && sessions.is_opened());
    assert!(Arc::ptr_eq(&one, &sessions.any().await.unwrap()));
    assert_eq!(store.asked("open"), [0]);
    assert!(sessions.remaining().unwrap() > Duration::from_secs(50));
    // Another session is opened when this one is over, which is forgotten once it has ended.
    one.deadline.lose(GONE);
    assert_eq!(sessions.remaining(), None);
    let next = sessions.any().await.unwrap();
    assert!(!Arc::ptr_eq(&one, &next));
    assert_eq!(store.asked("open").len(), 2);
    next.deadline.lose(GONE);
    sleep(Duration::from_secs(1)).await;
    sessions.any().await.unwrap();
    assert_eq!(sessions.pool.state.lock().known.len(), 1, "two are done with");
}

/// Where a stall of the process limits what renewals prove, a slow opening counts as a stall.
#[tokio::test(start_paused = true)]
async fn session_that_opened_slowly_is_used() {
    let store = closing();
    store.change(|facts| facts.relays_renewals = true);
    // Two thirds of the TTL.
    store.open.then(40_000, || Ok(()));
    let shared = Shared { connect_timeout: Duration::from_secs(50), ..store.shared() };
    let sessions = Sessions::lazy(shared);
    let enter = |session: &Arc<Session>| session.deadline.enter().then(|| Arc::clone(session));
    let entered = timeout(Duration::from_secs(300), sessions.in_session(enter)).await;
    let session = entered.expect("it waits for a session that opens sooner").unwrap();
    assert_eq!(session.deadline.lost_reason(), None);
    assert_eq!(store.asked("open"), [0]);
}

/// A session without room continues to serve its locks. Another one is opened for new locks.
#[tokio::test(start_paused = true)]
async fn sessions_without_room_are_kept() {
    let store = closing();
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let first = sessions.any().await.unwrap();
    let second = sessions
        .in_session(|session| (!Arc::ptr_eq(session, &first)).then(|| Arc::clone(session)))
        .await
        .unwrap();
    assert_eq!(sessions.pool.state.lock().known.len(), 2);
    // The session that was renewed last counts, if it is alive.
    sleep(Duration::from_secs(5)).await;
    second.prove().await.unwrap();
    assert_eq!(sessions.remaining(), Some(second.deadline.remaining()));
    second.deadline.lose(GONE);
    assert_eq!(sessions.remaining(), Some(first.deadline.remaining()));
    assert!(Arc::ptr_eq(&first, &sessions.any().await.unwrap()));
    let key = Entry::new("/q/1", 7);
    assert!(!sessions.owns(&key));
    first.own_keys.add(key.clone(), SequencePoint(7), Duration::ZERO, false);
    assert!(sessions.owns(&key));
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_opens_nothing() {
    let store = closing();
    store.open.then(1000, || Ok(()));
    let sessions = Sessions::lazy(store.shared());
    let mut waiting = Box::pin(sessions.any());
    assert!(timeout(Duration::from_millis(500), &mut waiting).await.is_err());
    assert!(!sessions.is_closed());
    sessions.close().await.unwrap();
    assert!(sessions.is_closed());
    assert!(matches!(waiting.await, Err(Error::Closed)));
    assert!(matches!(sessions.any().await, Err(Error::Closed)));
    assert!(!sessions.is_opened());
    // The session that was opened nevertheless has been ended.
    sleep(Duration::from_secs(200)).await;
    assert_eq!((store.asked("open").len(), store.asked("close").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn close_returns_the_store_reply() {
    for (error, fails) in [(None, false), (Some("no"), true)] {
        let store = FakeStore::new();
        store.close.then(0, move || error.map_or(Ok(()), |no| Err(StoreError::Denied(no.into()))));
        let sessions = Sessions::open(store.shared()).await.unwrap();
        let session = sessions.any().await.unwrap();
        assert_eq!(sessions.close().await.is_err(), fails);
        assert_eq!(session.deadline.lost_reason(), Some(LostReason::ClientClosed));
        // Both calls return the same result, and only one request is sent.
        assert_eq!(sessions.close().await.is_err(), fails);
        assert_eq!(store.asked("close").len(), 1);
    }
    // No reply within the connect timeout.
    let store = FakeStore::new();
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let began = Instant::now();
    assert!(matches!(sessions.close().await, Err(Error::Unavailable { .. })));
    assert_eq!(began.elapsed().as_secs(), 5);
}

/// A lost session that could not be ended, because the store does not reply, is abandoned after a
/// while. A session that the store refuses to end is not.
#[tokio::test(start_paused = true)]
async fn ended_sessions_are_forgotten() {
    for (answer, done) in [
        (Ok(()), true),
        (Err(silent as fn() -> StoreError), true),
        (Err(|| StoreError::Denied("no".into())), false),
    ] {
        let store = FakeStore::new();
        store.close.then(0, move || answer.map_err(|error| error()));
        let session = store.session().await;
        session.deadline.lose(GONE);
        assert!(!session.is_done_with());
        sleep(Duration::from_secs(200)).await;
        assert_eq!(session.is_done_with(), done, "{answer:?}");
        assert_eq!(session.close(Duration::from_secs(1)).await.is_ok(), done, "{answer:?}");
        let closed = store.session().await;
        closed.deadline.lose(LostReason::ClientClosed);
        sleep(Duration::from_secs(200)).await;
        assert!(!closed.is_done_with(), "that is asked for again");
    }
}

/// A metrics recorder or a tracing subscriber, which the keeper calls, may panic.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_panics_ends_its_session() {
    let store = closing();
    let shared = store.shared();
    store.keep_alive.then(0, || panic!("a recorder's"));
    let sessions = Sessions::open(shared).await.unwrap();
    let session = sessions.any().await.unwrap();
    assert!(session.deadline.enter());
    session.deadline.grant().unwrap();
    let lost = timeout(Duration::from_secs(60), session.deadline.lost()).await;
    assert_eq!(lost, Ok(LostReason::KeeperStopped));
    // The next session is opened, and this one is dropped.
    let next = sessions.any().await.unwrap();
    assert!(!Arc::ptr_eq(&next, &session) && session.is_done_with());
}

/// If the task that opens a session is dropped, the calls that wait for it fail, but later calls do
/// not.
#[tokio::test(start_paused = true)]
async fn an_opening_that_panics_is_repeated() {
    let store = closing();
    store.open.then(0, || panic!("a recorder's"));
    let sessions = Sessions::lazy(store.shared());
    for tries in 1..=2 {
        let opened = timeout(Duration::from_secs(60), sessions.any()).await.unwrap();
        assert!(matches!(opened, Err(Error::Runtime { .. })));
        assert_eq!(store.asked("open").len(), tries);
    }
}

/// A thread of the parent may hold the pool's lock at the fork.
#[tokio::test]
async fn forked_child_does_not_wait_for_its_parents_lock() {
    let store = closing();
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let file = std::env::temp_dir().join(format!("distlock-pool-{:x}", random::id()));
    let held = sessions.pool.state.lock();
    let child = match distlock_fork::split().unwrap() {
        Fork::Child => {
            let seen = (sessions.is_opened(), sessions.is_closed(), sessions.remaining());
            let closed = sessions.close().now_or_never();
            let text = format!("{seen:?} {}", matches!(closed, Some(Err(Error::Runtime { .. }))));
            process::exit(i32::from(fs::write(&file, text).is_err()));
        }
        Fork::Parent(child) => child,
    };
    drop(held);
    let ended = ends_within(child, Duration::from_secs(20)).unwrap();
    assert!(ended, "the child hangs");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    assert_eq!(text, "(true, false, None) true");
}
