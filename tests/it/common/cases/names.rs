//! Names and options, good and bad.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use distlock::{Builder, Client, Error};

use crate::common::{Case, SOON, builder, eventually, locked, release, within};

pub(crate) async fn names_that_begin_alike_are_independent(t: &Case) {
    let clients = t.clients::<2>().await;
    let mut names = ["a", "ab", "a/b", "a/", "a/b/c", "A"];
    // Also in reverse order: only a later entry could take another lock's key for its predecessor.
    for _ in 0..2 {
        let mut guards = Vec::new();
        for (place, name) in names.into_iter().enumerate() {
            guards.push(locked(&clients[place % 2], name).await);
        }
        assert!(guards.iter().all(|guard| guard.is_valid()));
        release(guards).await;
        names.reverse();
    }
}

pub(crate) async fn odd_names_work_and_are_independent(t: &Case) {
    let longest = "x".repeat(255);
    let names = [
        ".",
        "..",
        "...",
        "/",
        "//",
        "a//b",
        "/a",
        "a\0b",
        "\0",
        "\u{ffff}",
        "\u{feff}",
        " ",
        "a b",
        "\t\n",
        "%",
        "%2E",
        "a%2Fb",
        "🔒",
        "e\u{301}",
        "é",
        // Some database collations compare these as equal.
        "e",
        "E",
        "e ",
        "ß",
        "ss",
        "k",
        "\u{212a}",
        "\\",
        "zookeeper",
        "_c_lock",
        "-",
        "\u{7f}",
        "lock-0000000001",
        &longest,
    ];
    let client = t.client().await;
    let mut guards = Vec::new();
    for name in names {
        let lock = within(SOON, &format!("{name:?} is free"), client.mutex(name).lock()).await;
        let guard = lock.unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(guard.name(), name);
        guards.push(guard);
    }
    let keys: HashSet<_> = guards.iter().map(|guard| guard.key().to_owned()).collect();
    assert_eq!(
        keys,
        t.keys().await.into_iter().collect::<HashSet<_>>(),
        "the store has other keys than the guards"
    );
    for name in names {
        assert!(
            client.mutex(name).try_lock().await.expect("a reply").is_none(),
            "{name:?} is granted twice"
        );
    }
    release(guards).await;
}

/// The store is unreachable, so the error proves that nothing was sent.
pub(crate) async fn bad_names_are_refused_before_anything_is_sent(t: &Case) {
    let link = t.link().await;
    let client = t.connect(t.builder_for(&link.url())).await;
    link.set_reachable(false);
    for name in
        ["", &"x".repeat(256), &"/".repeat(86), &"\u{ffff}".repeat(29), &"x".repeat(1 << 16)]
    {
        let mutex = client.mutex(name);
        let start = Instant::now();
        let outcomes = [
            mutex.lock().await.map(Some),
            mutex.try_lock().await,
            mutex.lock_timeout(Duration::from_secs(5)).await,
            mutex.lock_timeout(Duration::ZERO).await,
        ];
        for outcome in outcomes {
            let error = outcome.expect_err("the name is bad");
            assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error:?}");
            assert!(!error.is_retryable());
        }
        assert!(start.elapsed() < Duration::from_secs(1), "the calls took {:?}", start.elapsed());
    }
    link.set_reachable(true);
}

/// The store is unreachable here as well.
pub(crate) async fn bad_options_are_refused_before_anything_is_sent(t: &Case) {
    async fn refused(builder: Builder) -> Error {
        within(Duration::from_secs(1), "the options are refused", builder.connect())
            .await
            .expect_err("refused")
    }
    let link = t.link().await;
    link.set_reachable(false);
    let builder = || builder(&link.url());
    let long = format!("/{}", "n".repeat(255));
    for namespace in
        ["", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/a/..", "/a b", "/a\0", "/ä", &long]
    {
        let error = refused(builder().namespace(namespace)).await;
        assert!(
            matches!(error, Error::InvalidArgument { argument: "namespace", .. }),
            "{namespace:?}: {error:?}"
        );
    }
    for ttl in
        [Duration::ZERO, Duration::from_millis(99), Duration::from_secs(86_401), Duration::MAX]
    {
        let error = refused(builder().session_ttl(ttl)).await;
        assert!(
            matches!(error, Error::InvalidArgument { argument: "session_ttl", .. }),
            "{ttl:?}: {error:?}"
        );
    }
    let error = refused(builder().owner("o".repeat(1025))).await;
    assert!(matches!(error, Error::InvalidArgument { argument: "owner", .. }), "{error:?}");
    for builder in [
        builder().connect_timeout(Duration::ZERO),
        builder().request_timeout(Duration::ZERO),
        builder().recheck_interval(Duration::MAX),
    ] {
        let error = refused(builder).await;
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(!error.is_retryable());
    }
    for url in ["", "h:1", "nats://h", "etcd://", "zk://h#x", "etcd://user@h"] {
        let error = refused(Client::builder(url)).await;
        assert!(matches!(error, Error::InvalidUrl { .. }), "{url:?}: {error:?}");
    }
    link.set_reachable(true);
}

pub(crate) async fn guards_return_their_name_and_key(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("report/7");
    assert_eq!(mutex.name(), "report/7");
    assert_eq!(client.rw_lock("report/7").name(), "report/7");
    assert_eq!(client.semaphore("report/7", 1).name(), "report/7");
    assert_eq!(client.election("report/7").name(), "report/7");
    let reentrant = mutex.reentrant("me");
    assert_eq!((reentrant.name(), reentrant.reentrancy_id()), ("report/7", "me"));
    let guard = mutex.lock().await.expect("granted");
    assert_eq!(guard.name(), "report/7");
    assert_eq!(t.keys().await, [guard.key()]);
    assert!(guard.key().starts_with(&format!("{}/report%2F7/", t.namespace)), "{}", guard.key());
    let shown = format!("{guard:?}");
    assert!(
        shown.contains(guard.key()) && shown.contains(&guard.fencing_token().to_string()),
        "{shown}"
    );
    guard.unlock().await.expect("released");
    eventually(Duration::from_secs(2), "the key is deleted", async || t.keys().await.is_empty())
        .await;
}
