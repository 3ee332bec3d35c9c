//! Closing clients, and connecting them.

use std::time::{Duration, Instant};

use distlock::{Error, Health, LostReason};

use crate::common::{
    Case, SOON, Sessions, cases::costs::sessions_of, eventually, locked, refused, throughout,
    within,
};

pub(crate) async fn close_releases_everything(t: &Case) {
    let [client, other] = t.clients().await;
    let mut guards = Vec::new();
    for name in ["one", "two", "three"] {
        guards.push(client.mutex(name).lock().await.expect("granted"));
    }
    let session = sessions_of(t, &[guards[0].key()]).await;
    let waiter = t.enqueue(&other, "one").await;
    let clone = client.clone();
    client.close().await.expect("closed");
    // `Ok` means that the store has confirmed the release.
    let keys = t.keys().await;
    assert!(guards.iter().all(|guard| !keys.iter().any(|key| key == guard.key())), "{keys:?}");
    waiter.served().await;
    if let Some(store) = t.store.sessions()
        && !t.store.url().starts_with("memory")
    {
        let over = async || !store.session_exists(session[0]).await;
        eventually(SOON, "the session has ended", over).await;
    }
    for guard in guards {
        assert!(!guard.is_valid());
        assert_eq!(guard.lost().await, LostReason::ClientClosed);
        let error = guard.unlock().await.expect_err("the lock was lost before");
        assert!(matches!(error, Error::Lost { reason: LostReason::ClientClosed, .. }), "{error:?}");
    }
    for client in [client, clone] {
        let mutex = client.mutex("one");
        let outcomes = [
            mutex.lock().await.map(Some),
            mutex.try_lock().await,
            mutex.lock_timeout(Duration::from_secs(1)).await,
        ];
        for outcome in outcomes {
            let error = outcome.expect_err("the client is closed");
            assert!(matches!(error, Error::Closed), "{error:?}");
        }
        client.close().await.expect("closing twice is fine");
    }
}

pub(crate) async fn close_ends_waiting(t: &Case) {
    let [holder, client] = t.clients().await;
    let guard = holder.mutex("queue").lock().await.expect("granted");
    let waiters = t.enqueue_all([&client; 3], "queue").await;
    client.close().await.expect("closed");
    for waiter in waiters {
        let error = waiter.result(SOON).await.expect_err("the client is closed");
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert!(!error.is_retryable());
    }
    assert_eq!(t.keys().await, [guard.key()]);
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
}

pub(crate) async fn a_guard_keeps_its_session_alive(t: &Case) {
    let client = t.builder().session_ttl(t.store.min_ttl()).connect().await.expect("connected");
    let ttl = client.session_ttl();
    let guard = client.mutex("alone").lock().await.expect("granted");
    let session = sessions_of(t, &[guard.key()]).await;
    drop(client);
    throughout(ttl + ttl / 2, "the guard is valid without a client", async || guard.is_valid())
        .await;
    assert_eq!(t.keys().await, [guard.key()]);
    drop(guard);
    if let Some(store) = t.store.sessions() {
        let over = async || !store.session_exists(session[0]).await;
        eventually(Duration::from_secs(2), "the session has ended", over).await;
    }
}

pub(crate) async fn the_last_clone_ends_the_session(t: &Case<dyn Sessions>) {
    let client = t.builder().connect().await.expect("connected");
    let guard = client.mutex("brief").lock().await.expect("granted");
    let session = t.store.session_of(guard.key()).await;
    guard.unlock().await.expect("released");
    let (clone, mutex) = (client.clone(), client.mutex("brief"));
    drop(client);
    drop(clone);
    // A mutex also keeps its client alive.
    let guard = mutex.lock().await.expect("granted");
    assert_eq!(t.store.session_of(guard.key()).await, session);
    guard.unlock().await.expect("released");
    assert!(t.store.session_exists(session).await);
    drop(mutex);
    eventually(Duration::from_secs(2), "the session has ended", async || {
        !t.store.session_exists(session).await
    })
    .await;
}

pub(crate) async fn dead_endpoints_are_unavailable_in_time(t: &Case) {
    let link = t.link().await;
    link.set_reachable(false);
    let connect_timeout = Duration::from_secs(1);
    let start = Instant::now();
    let error = refused(t.builder_for(&link.url()).connect_timeout(connect_timeout)).await;
    let took = start.elapsed();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.is_retryable());
    assert!(took < connect_timeout + Duration::from_millis(500), "given up after {took:?}");
    link.set_reachable(true);
    t.connect(t.builder_for(&link.url())).await;
}

/// A lazy client is for services that start before their store.
pub(crate) async fn a_lazy_client_opens_its_session_when_it_is_needed(t: &Case) {
    let link = t.link().await;
    link.set_reachable(false);
    let connect_timeout = Duration::from_secs(1);
    let lazy = || t.builder_for(&link.url()).connect_timeout(connect_timeout).connect_lazy();
    let (client, never) = (lazy().expect("a client"), lazy().expect("another one"));
    for _ in 0..2 {
        assert_eq!(client.health(), Health::NotOpened);
        let mutex = client.mutex("a");
        let error = within(SOON, "the call gives up", mutex.lock())
            .await
            .expect_err("no server is reachable");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
    link.set_reachable(true);
    let guard = locked(&client, "a").await;
    assert!(matches!(client.health(), Health::Confirmed { .. }), "{:?}", client.health());
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    never.close().await.expect("closed");
    assert_eq!(never.health(), Health::Closed);
    assert!(matches!(never.mutex("a").lock().await, Err(Error::Closed)));
    let error =
        t.builder().namespace("locks").connect_lazy().expect_err("options are checked at once");
    assert!(matches!(error, Error::InvalidArgument { argument: "namespace", .. }), "{error:?}");
}

/// A store that cannot grant such a short or long TTL returns the granted one, which then applies.
pub(crate) async fn a_ttl_beyond_bounds_is_returned_as_granted(t: &Case) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    for asked in [Duration::from_millis(100), DAY] {
        let client = t.connect(t.builder().session_ttl(asked)).await;
        let granted = client.session_ttl();
        println!("{granted:?} for {asked:?}");
        assert!(
            if asked == DAY { granted <= asked } else { granted >= asked },
            "{granted:?} for {asked:?}"
        );
        let guard = client.mutex("ttl").lock().await.expect("granted");
        assert!(guard.remaining() <= granted, "{:?} of {granted:?}", guard.remaining());
        if granted > asked {
            // The session has the granted TTL.
            throughout(asked * 3, "the lock is held", async || guard.is_valid()).await;
        }
        drop(guard);
        t.queue_of(0).await;
    }
}

pub(crate) async fn the_granted_ttl_is_returned(t: &Case) {
    for asked in [t.store.min_ttl(), Duration::from_secs(7)] {
        let client = t.connect(t.builder().session_ttl(asked)).await;
        assert_eq!(client.session_ttl(), asked, "every store grants this TTL unchanged");
        let guard = client.mutex("ttl").lock().await.expect("granted");
        assert!(guard.remaining() <= asked);
        assert!(guard.remaining() > asked / 2, "{:?} of {asked:?}", guard.remaining());
        guard.unlock().await.expect("released");
    }
}

/// `close` returns `Ok` only if the store confirms it, however often it is called.
pub(crate) async fn closing_again_needs_a_confirmation(t: &Case) {
    let link = t.link().await;
    let builder = t.builder_for(&link.url()).connect_timeout(Duration::from_secs(1));
    let client = t.connect(builder.request_timeout(Duration::from_millis(300))).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    link.set_reachable(false);
    for _ in 0..2 {
        let error = within(SOON, "the call gives up", client.close())
            .await
            .expect_err("no store has confirmed it");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
    assert!(!guard.is_valid(), "the client is closed nevertheless");
    assert!(matches!(client.mutex("b").lock().await, Err(Error::Closed)));
    link.set_reachable(true);
}
