//! When sessions are opened and ended, by a stopped clock.

use super::*;
use crate::{
    backend::SequencePoint,
    lost::LostReason,
    runtime::clock::{sleep, timeout},
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

/// The first session is wanted at once or not at all; later ones may take the connect timeout.
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
    // One that never answers takes no longer.
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
    // Another one is opened when that is over, and that one is forgotten once it is ended.
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

/// One that has no room serves others; another one is opened beside it.
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
    // The one that was proved last counts, if it lives.
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
    // What was opened all the same has been ended.
    sleep(Duration::from_secs(200)).await;
    assert_eq!((store.asked("open").len(), store.asked("close").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn close_returns_the_store_reply() {
    for (error, told) in [(None, false), (Some("no"), true)] {
        let store = FakeStore::new();
        store.close.then(0, move || error.map_or(Ok(()), |no| Err(StoreError::Denied(no.into()))));
        let sessions = Sessions::open(store.shared()).await.unwrap();
        let session = sessions.any().await.unwrap();
        assert_eq!(sessions.close().await.is_err(), told);
        assert_eq!(session.deadline.lost_reason(), Some(LostReason::ClientClosed));
        // It is asked for again, as often as the user does, and answered the same.
        assert_eq!(sessions.close().await.is_err(), told);
        assert_eq!(store.asked("close").len(), 1);
    }
    // No answer within the connect timeout.
    let store = FakeStore::new();
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let began = Instant::now();
    assert!(matches!(sessions.close().await, Err(Error::Unavailable { .. })));
    assert_eq!(began.elapsed().as_secs(), 5);
}

/// A session that was lost, and that the store could not be asked to end, is given up in the end;
/// one that the store refused to end is not.
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
    // The next one is opened, and this one is not kept.
    let next = sessions.any().await.unwrap();
    assert!(!Arc::ptr_eq(&next, &session) && session.is_done_with());
}

/// An opening whose task is dropped fails the calls that wait for it, and not those after them.
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
