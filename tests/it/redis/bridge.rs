//! Mutexes that exclude the locks of other libraries, too.

use std::time::Duration;

use distlock::{Client, Error, LostReason};
use distlock_testkit::proxy::Mode;
use redis::cmd;
use tokio::time::{Instant, sleep, timeout};

use super::{Shared, own::Server};
use crate::{
    common::{
        Case, Harness, SOON, Sessions, beside_others, cases::costs, eventually, locked, own::TTL,
        reason, redis::run, release, throughout, within,
    },
    redis::{
        monitor::Monitor,
        others::{LAYOUTS, Others},
    },
};

const MINUTE: Option<u64> = Some(60_000);

/// Runs a case with each layout.
async fn both(case: impl AsyncFn(&Case<Shared>, &Others)) {
    beside_others::<Shared>(async |t: &Case<Shared>| {
        for layout in LAYOUTS {
            case(t, &Others::new(t, layout).await).await;
        }
    })
    .await;
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            both(async |t, others| cases::$case(t, others).await).await;
        }
    )* };
}

cases! {
    a_bridged_lock_excludes_foreign_clients,
    a_waiter_is_granted_when_others_release,
    a_foreign_lock_without_expiry_is_waited_for,
    a_foreign_lock_of_a_dead_holder_expires,
    a_dead_holder_keeps_its_lock_for_its_ttl,
    ours_are_granted_in_order_while_others_compete,
    a_try_is_refused_while_others_have_it,
    all_locks_are_taken_or_none,
    a_lock_whose_key_was_deleted_is_lost,
    a_lock_whose_key_was_seized_is_lost,
    a_holder_that_was_not_notified_yet_writes_nothing,
    a_key_that_was_taken_over_is_not_released,
    locks_of_a_dead_session_are_free,
    a_key_of_another_type_is_refused,
    only_the_first_waiter_queries_the_foreign_key,
    waiters_of_one_client_take_turns,
    others_are_seen_in_the_queue,
    a_late_eviction_spares_the_next_holder,
}

mod cases {
    use super::*;

    pub(super) async fn a_bridged_lock_excludes_foreign_clients(t: &Case, others: &Others) {
        let client = others.client(t).await;
        for name in ["a", "an odd/name: \u{e4}", "."] {
            let guard = client.mutex(name).lock().await.expect("granted");
            assert!(!others.take(name, "other", MINUTE).await, "{name}");
            let left = others.left(name).await;
            let ttl = client.session_ttl().as_millis().try_into().expect("a number");
            // The key outlives the guard, whose validity began earlier.
            let valid: i64 = guard.remaining().as_millis().try_into().expect("a number");
            assert!((valid..=ttl).contains(&left), "{left} of {ttl}, and {valid}");
            guard.unlock().await.expect("released");
            assert!(others.take(name, "other", MINUTE).await, "{name}");
            assert!(others.release(name, "other").await);
        }
        let account = client.mutex("a").reentrant("one");
        let [outer, inner] =
            [account.lock().await.expect("granted"), account.lock().await.expect("granted")];
        outer.unlock().await.expect("released");
        assert!(!others.is_free("a").await);
        inner.unlock().await.expect("released");
        assert!(others.is_free("a").await);
    }

    pub(super) async fn a_waiter_is_granted_when_others_release(t: &Case, others: &Others) {
        let client = others.client(t).await;
        assert!(others.take("a", "other", MINUTE).await);
        let waiter = t.enqueue(&client, "a").await;
        waiter.waits_throughout(Duration::from_millis(500), "the waiter waits").await;
        assert!(others.release("a", "other").await);
        // Redisson's key would be read again in a minute, so only a notification is this early.
        let guard = waiter.granted().await;
        assert!(!others.take("a", "other", MINUTE).await);
        guard.unlock().await.expect("released");
        assert!(others.is_free("a").await);
    }

    pub(super) async fn a_foreign_lock_without_expiry_is_waited_for(t: &Case, others: &Others) {
        let client = others.client(t).await;
        assert!(others.take("a", "other", None).await);
        let waiter = t.enqueue(&client, "a").await;
        waiter.waits_throughout(Duration::from_millis(500), "the waiter waits").await;
        assert_eq!(others.left("a").await, -1);
        assert!(others.release("a", "other").await);
        waiter.served().await;
        assert!(others.is_free("a").await);
    }

    pub(super) async fn a_foreign_lock_of_a_dead_holder_expires(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let began = Instant::now();
        assert!(others.take("a", "other", Some(1_500)).await);
        let guard = locked(&client, "a").await;
        let waited = began.elapsed();
        // The margin is for a busy machine.
        let bounds = Duration::from_millis(1_450)..Duration::from_millis(2_500);
        assert!(bounds.contains(&waited), "{waited:?}");
        guard.unlock().await.expect("released");
    }

    pub(super) async fn a_dead_holder_keeps_its_lock_for_its_ttl(t: &Case, others: &Others) {
        let link = t.link().await;
        let ttl = t.store.min_ttl();
        let builder = t.builder_for(&format!("{}{}", link.url(), others.query()));
        let client = t.connect(builder.session_ttl(ttl)).await;
        let guard = client.mutex("a").lock().await.expect("granted");
        // Held for longer than one TTL.
        throughout(ttl * 2, "the lock is held", async || {
            guard.is_valid() && !others.take("a", "other", MINUTE).await
        })
        .await;
        link.cut_off(&guard);
        let cut = Instant::now();
        let mut valid = true;
        eventually(SOON, "another library has the lock", async || {
            valid = guard.is_valid();
            others.take("a", "other", MINUTE).await
        })
        .await;
        assert!(!valid, "the guard was valid just before the other grant");
        let waited = cut.elapsed();
        assert!(waited > ttl / 2 && waited < ttl + Duration::from_secs(1), "{waited:?}");
        link.set_reachable(true);
        drop(guard);
        let next = others.client(t).await;
        let waiter = t.enqueue(&next, "a").await;
        waiter.waits_throughout(ttl, "the end of the dead session frees nothing").await;
        assert!(others.release("a", "other").await);
        waiter.served().await;
    }

    pub(super) async fn ours_are_granted_in_order_while_others_compete(t: &Case, others: &Others) {
        let [one, two, three] =
            [others.client(t).await, others.client(t).await, others.client(t).await];
        for _ in 0..5 {
            assert!(others.take("a", "first", MINUTE).await);
            let mut waiters = t.enqueue_all([&one, &two, &three, &one], "a").await;
            let competing = async {
                loop {
                    if others.take("a", "other", MINUTE).await {
                        sleep(Duration::from_millis(5)).await;
                        assert!(others.release("a", "other").await);
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            };
            let turns = async {
                assert!(others.release("a", "first").await);
                let mut token = None;
                while !waiters.is_empty() {
                    let guard = waiters.remove(0).granted().await;
                    assert!(waiters.iter().all(|later| later.waits()), "out of order");
                    assert!(token < Some(guard.fencing_token()));
                    token = Some(guard.fencing_token());
                    guard.unlock().await.expect("released");
                }
            };
            tokio::select! {
                () = competing => unreachable!("the competitor never ends"),
                () = turns => {}
            }
            eventually(SOON, "the other library has released", async || {
                others.is_free("a").await || others.release("a", "other").await
            })
            .await;
        }
    }

    pub(super) async fn a_try_is_refused_while_others_have_it(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let mutex = client.mutex("a");
        for ttl in [MINUTE, None] {
            assert!(others.take("a", "other", ttl).await);
            assert!(mutex.try_lock().await.expect("a reply").is_none());
            assert_eq!(t.keys().await, [""; 0]);
            let brief = mutex.lock_timeout(Duration::from_millis(100)).await;
            assert!(brief.expect("a reply").is_none());
            assert!(others.release("a", "other").await);
            let guard = mutex.try_lock().await.expect("a reply").expect("free");
            assert!(!others.take("a", "other", ttl).await);
            guard.unlock().await.expect("released");
        }
    }

    pub(super) async fn all_locks_are_taken_or_none(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let names = ["a", "b", "c"];
        assert!(others.take("b", "other", MINUTE).await);
        assert!(client.try_lock_all(names).await.expect("a reply").is_none());
        for free in ["a", "c"] {
            eventually(SOON, "the lock is released again", async || others.is_free(free).await)
                .await;
        }
        let all = client.clone();
        let waiter = tokio::spawn(async move { all.lock_all(names).await });
        eventually(SOON, "the client has a and waits for b", async || !others.is_free("a").await)
            .await;
        assert!(others.release("b", "other").await);
        let all = within(SOON, "all locks are granted", waiter)
            .await
            .expect("no panic")
            .expect("granted");
        for name in names {
            assert!(!others.take(name, "other", MINUTE).await);
        }
        all.unlock().await.expect("released");
        // All of them are free now.
        let all = client.lock_all(names).await.expect("granted");
        for name in names {
            assert!(!others.take(name, "other", MINUTE).await);
        }
        all.unlock().await.expect("released");
        for name in names {
            assert!(others.is_free(name).await);
        }
    }

    async fn lost(t: &Case, others: &Others, how: impl AsyncFn()) {
        let client = others.mortal_client(t).await;
        let [guard, other] = [client.mutex("a").lock().await, client.mutex("b").lock().await]
            .map(|guard| guard.expect("granted"));
        how().await;
        let reason = within(client.session_ttl(), "the holder is notified", guard.lost()).await;
        assert_eq!(reason, LostReason::Evicted);
        assert!(!guard.is_valid() && guard.unlock().await.is_err());
        // The session and its other locks continue.
        throughout(client.session_ttl(), "the other lock is held", async || other.is_valid()).await;
        other.unlock().await.expect("released");
    }

    pub(super) async fn a_lock_whose_key_was_deleted_is_lost(t: &Case, others: &Others) {
        lost(t, others, async || others.delete("a").await).await;
        assert!(others.is_free("a").await);
    }

    pub(super) async fn a_lock_whose_key_was_seized_is_lost(t: &Case, others: &Others) {
        lost(t, others, async || others.seize("a").await).await;
        assert!(others.release("a", "thief").await, "the key is still the thief's");
    }

    pub(super) async fn a_holder_that_was_not_notified_yet_writes_nothing(
        t: &Case,
        others: &Others,
    ) {
        let client = others.client(t).await;
        let (guard, key) = (client.mutex("a").lock().await.expect("granted"), t.data_key("a"));
        guard.put(&key, "1").await.expect("written");
        others.seize("a").await;
        let refused = guard.put(&key, "2").await.expect_err("the key is the thief's");
        assert!(matches!(refused, Error::Lost { .. }), "{refused:?}");
        assert_eq!(t.store.data(&key).await.as_deref(), Some(&b"1"[..]));
        drop(guard);
        t.store.erase(&key).await;
        assert!(others.release("a", "thief").await);
    }

    pub(super) async fn a_key_that_was_taken_over_is_not_released(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let guard = client.mutex("a").lock().await.expect("granted");
        others.seize("a").await;
        // Long before the next keepalive.
        guard.unlock().await.expect("the place in the queue is released");
        assert!(others.release("a", "thief").await, "the key is still the thief's");
    }

    pub(super) async fn locks_of_a_dead_session_are_free(t: &Case<dyn Sessions>, others: &Others) {
        let [client, next] = [others.client(t).await, others.client(t).await];
        let (guard, waiter) = t.contended(&client, &next, "a").await;
        t.store.end_session_of(guard.key()).await;
        let next = waiter.granted().await;
        assert!(!others.take("a", "other", MINUTE).await);
        t.store.end_session_of(next.key()).await;
        assert!(others.take("a", "other", MINUTE).await);
        assert!(others.release("a", "other").await);
        drop((guard, next));
    }

    pub(super) async fn a_key_of_another_type_is_refused(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let _: u8 = others.ask("SADD", "a", &["x"]).await;
        let mutex = client.mutex("a");
        for refused in [mutex.lock().await.map(drop), mutex.try_lock().await.map(drop)] {
            let error = refused.expect_err("the key is a set");
            assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
            let text = reason(&error);
            assert!(text.contains("is a set") && text.contains(&others.key("a")), "{text}");
        }
        assert_eq!(t.keys().await, [""; 0]);
        others.delete("a").await;
        // The key changes its type while a client waits.
        assert!(others.take("a", "other", MINUTE).await);
        let waiter = t.enqueue(&client, "a").await;
        let _: u8 = others.ask("SADD", "set", &["x"]).await;
        let _: String = others.ask("RENAME", "set", &[&others.key("a")]).await;
        others.wake("a").await;
        let error = waiter.result(SOON).await.expect_err("the key is a set");
        assert!(matches!(error, Error::Backend { .. }), "{error:?}");
        eventually(SOON, "the waiter has left", async || t.keys().await.is_empty()).await;
        others.delete("a").await;
    }

    pub(super) async fn only_the_first_waiter_queries_the_foreign_key(t: &Case, others: &Others) {
        let [one, two, three] =
            [others.client(t).await, others.client(t).await, others.client(t).await];
        assert!(others.take("a", "other", MINUTE).await);
        let waiters = t.enqueue_all([&one, &two, &three], "a").await;
        let sessions = costs::sessions(t, &waiters).await;
        let sessions = sessions.into_iter().map(|session| format!("\"{session:x}\""));
        sleep(Duration::from_millis(200)).await;
        let monitor = Monitor::start(&t.store.url()).await;
        let scripts = scripts_with(&others.key("a"), monitor, Duration::from_secs(2)).await;
        let by = |session: String| scripts.iter().filter(|line| line.contains(&session)).count();
        let counts: Vec<_> = sessions.map(by).collect();
        // With Redisson's layout the first waiter is notified, so it does not query either.
        assert_eq!(counts[0] > 0, others.layout == "plain", "{counts:?}");
        assert_eq!(counts[1..], [0, 0]);
        assert!(others.release("a", "other").await);
        release(waiters).await;
    }

    pub(super) async fn waiters_of_one_client_take_turns(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let guard = client.mutex("a").lock().await.expect("granted");
        let mut waiters = t.enqueue_all([&client; 4], "a").await;
        // A waiter in the middle gives up.
        waiters.remove(1).cancel();
        guard.unlock().await.expect("released");
        for waiter in waiters {
            let guard = waiter.granted().await;
            assert!(!others.take("a", "other", MINUTE).await, "the lock is free");
            guard.unlock().await.expect("released");
        }
        assert!(others.is_free("a").await);
    }

    pub(super) async fn others_are_seen_in_the_queue(t: &Case, others: &Others) {
        let client = others.client(t).await;
        let mutex = client.mutex("a");
        assert!(mutex.holder().await.expect("a reply").is_none());
        assert!(others.take("a", "other", MINUTE).await);
        let waiter = t.enqueue(&client, "a").await;
        let queue = mutex.queue().await.expect("a reply");
        let owners: Vec<_> = queue.iter().map(|entry| entry.owner().to_owned()).collect();
        assert_eq!(owners.len(), 2, "{owners:?}");
        assert!(owners[0].starts_with("other"), "{owners:?}");
        assert!(queue[0].is_holder() && !queue[1].is_holder() && queue[1].is_own());
        // An operator evicts the foreign holder.
        assert!(client.evict(queue[0].key()).await.expect("a reply"));
        let guard = waiter.granted().await;
        let queue = mutex.queue().await.expect("a reply");
        assert_eq!((queue.len(), queue[0].key()), (1, guard.key()));
        guard.unlock().await.expect("released");
    }

    /// The other library releases the lock after the operator's client has read the queue. Its
    /// second request arrives when another client has the lock.
    pub(super) async fn a_late_eviction_spares_the_next_holder(t: &Case<Shared>, others: &Others) {
        let proxies = t.proxies().await;
        let builder = t.builder_for(&format!("{}{}", proxies.url(), others.query()));
        let (operator, client) = (t.connect(builder).await, others.client(t).await);
        assert!(others.take("a", "other", MINUTE).await);
        let queue = client.mutex("a").queue().await.expect("a reply");
        let key = queue[0].key().to_owned();
        let mut monitor = Monitor::start(&Harness::url(&t.store)).await;
        proxies.set(&Mode::Delay(Duration::from_millis(500)));
        let evicting = tokio::spawn(async move { operator.evict(key).await });
        within(SOON, "the operator reads the queue", async {
            while !is_script_with(&others.key("a"), &monitor.line().await) {}
        })
        .await;
        assert!(others.release("a", "other").await);
        let guard = locked(&client, "a").await;
        within(SOON, "the operator has a reply", evicting).await.expect("no panic").expect("it");
        assert!(!others.take("a", "other", MINUTE).await, "the lock is held");
        guard.unlock().await.expect("released");
        assert!(others.is_free("a").await);
    }
}

fn is_script_with(key: &str, line: &str) -> bool {
    line.contains("\"EVALSHA\"") && line.contains(key)
}

/// Returns the scripts that run with this key within the given time.
async fn scripts_with(key: &str, mut monitor: Monitor, time: Duration) -> Vec<String> {
    let mut scripts = Vec::new();
    let listening = async {
        loop {
            let line = monitor.line().await;
            if is_script_with(key, &line) {
                scripts.push(line);
            }
        }
    };
    let _: Result<(), _> = timeout(time, listening).await;
    scripts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primitives_without_a_foreign_counterpart_are_refused_before_io() {
    let url = "redis://192.0.2.1?bridge=plain&bridge_prefix=bridge:";
    let client = Client::builder(url).connect_lazy().expect("checked");
    let refused = [
        client.rw_lock("a").read().await.map(drop),
        client.rw_lock("a").write().await.map(drop),
        client.semaphore("a", 2).acquire().await.map(drop),
        client.election("a").campaign("x").await.map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("the bridge does not support it");
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    }
    let all = Client::builder("redis://192.0.2.1?bridge=plain").connect_lazy().expect("checked");
    for name in ["{distlock:/distlock}:queue", "{distlock}:x"] {
        let error = all.mutex(name).lock().await.expect_err("the key is our own");
        assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error:?}");
        let error = all.lock_all(["a", name]).await.expect_err("the key is our own");
        assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durability_names_the_limits_of_a_bridge() {
    beside_others::<Shared>(async |t: &Case<Shared>| {
        let durability = Others::new(t, "redisson").await.client(t).await.durability().await;
        let durability = durability.expect("a reply");
        assert!(!durability.exclusive);
        let named = durability.reasons.iter().filter(|text| text.starts_with("bridge=redisson"));
        assert_eq!(named.count(), 2, "{:?}", durability.reasons);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_unsafe_for_a_bridge_is_refused() {
    let server = Server::just_begun(&["--cluster-enabled", "yes"]).await;
    let refused = async |words: &str| {
        let error = Client::connect(format!("{}?bridge=plain", server.url())).await;
        let error = error.expect_err("refused");
        assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
        let text = reason(&error);
        assert!(text.contains(words), "{text}");
    };
    refused("of a cluster").await;
    drop(server);
    let server = Server::with(&["--maxmemory-policy", "volatile-ttl"]).await;
    let connecting = Client::connect(format!("{}?bridge=plain", server.url()));
    let error = within(SOON, "the policy is reported", connecting).await.expect_err("refused");
    assert!(reason(&error).contains("volatile-ttl"), "{error:?}");
    drop(server.client().await);
}

/// Without a bridge, foreign locks and ours overlap, which shows that the other tests can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bridge_others_are_not_excluded() {
    beside_others::<Shared>(async |t: &Case<Shared>| {
        let others = Others::new(t, "plain").await;
        let guard = t.client().await.mutex("a").lock().await.expect("granted");
        assert!(others.take("a", "other", MINUTE).await);
        assert!(guard.is_valid());
        guard.unlock().await.expect("released");
        assert!(others.release("a", "other").await);
    })
    .await;
}

/// The server's clock may be set unnoticed; an early expiry has the same effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_whose_key_has_expired_by_the_servers_clock_is_lost() {
    let server = Server::start().await;
    let builder = Client::builder(format!("{}?bridge=plain&bridge_prefix=bridge:", server.url()));
    let client = builder.session_ttl(TTL).connect().await.expect("connected");
    let guard = client.mutex("a").lock().await.expect("granted");
    let _: u8 = server.ask(cmd("PEXPIRE").arg("bridge:a").arg(1)).await;
    let reason = within(TTL, "the holder is notified", guard.lost()).await;
    assert_eq!(reason, LostReason::Evicted);
    drop(guard);
    client.mutex("a").lock().await.expect("granted").unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// A late request to join created an entry of no attempt, which then lost its gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_gate_without_a_holder_ends_no_session() {
    let server = Server::start().await;
    let builder = Client::builder(format!("{}?bridge=plain&bridge_prefix=bridge:", server.url()));
    let client = builder.session_ttl(TTL).connect().await.expect("connected");
    let guard = client.mutex("a").lock().await.expect("granted");
    let (dir, name) = guard.key().rsplit_once('/').expect("a key");
    let (session, _) = name.split_once('-').expect("a session");
    let ticket = "00000000-0000-4000-8000-000000000000";
    let key = format!("{dir}/{session}-{ticket}");
    let lines = "local lost = table.concat({ '~' .. ARGV[3], 'l', ARGV[4], ARGV[5] }, ' ')
        return call('ZADD', QUEUE, 0, lost)";
    let added: u8 = run(&server.operator().await, lines, &[session, ticket, &key]).await;
    assert_eq!(added, 1);
    throughout(TTL * 2, "the lock is held", async || guard.is_valid()).await;
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}
