//! Changes of a session: it is moved, replaced by another, or granted another timeout.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use distlock::{Client, Error, LostReason};
use distlock_testkit::{
    framing::Framing,
    proxy::{Mode, Proxy},
};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use zookeeper_client::CreateMode;

use crate::{
    common::{
        Case, Harness, Members, SOON, Sessions, Waiter, eventually, locked, loss, own_cases,
        precedes_grant, release, release_both, throughout, within,
        zookeeper::{Setup, ZooKeeper, four_letters, take_over, watches},
    },
    zookeeper::{
        directories::directory_of,
        forger::{Forger, Packet},
    },
};

/// A client of a server that receives changed requests, through a proxy.
struct Forged {
    server: SocketAddr,
    proxy: Proxy,
    forger: Forger,
    client: Client,
}

impl Forged {
    async fn connect<const KIND: usize>(
        t: &Case<Setup<KIND>>,
        ttl: Duration,
        forgery: impl Fn(Packet<'_>) + Send + Sync + 'static,
    ) -> Self {
        let server = t.store.network().1[0];
        let forger = Forger::start(server, forgery).await;
        let proxy = Proxy::start(forger.address, Framing::Jute).await;
        let client =
            t.connect(t.builder_for(&format!("zk://{}", proxy.address)).session_ttl(ttl)).await;
        assert_eq!(client.session_ttl(), ttl);
        Self { server, proxy, forger, client }
    }

    /// Returns `true` if the server has a watch of this session on a node.
    async fn watches(&self, node: &str, session: i64) -> bool {
        watches(self.server, node, session).await
    }

    /// Closes the client's connection and waits until it has another.
    async fn reconnect(&self) {
        let before = self.forger.connections();
        self.proxy.hang_up();
        eventually(SOON, "the client reconnects", async || self.forger.connections() > before)
            .await;
    }
}

/// Makes a client that reconnects start a new session.
fn forget_session(mut packet: Packet<'_>) {
    if packet.is_reconnect() {
        packet.forget_session();
    }
}

/// Takes a session over. Its client may be reconnecting after the last attempt and interfere: of
/// simultaneous connect requests a follower replies to the last one alone (`pendingRevalidations`
/// in ZooKeeper's `Learner.java`).
async fn taken(server: SocketAddr, session: i64) -> TcpStream {
    let mut stream = None;
    eventually(SOON, "the session is taken over", async || {
        let reply = timeout(Duration::from_secs(1), take_over(server, session)).await;
        stream = reply.ok().and_then(Result::ok);
        stream.is_some()
    })
    .await;
    stream.expect("just seen")
}

/// Returns the paths that a session watches, as the servers report them.
async fn watched<const KIND: usize>(t: &Case<Setup<KIND>>, session: i64) -> Vec<String> {
    let mut paths = Vec::new();
    for server in t.store.distinct() {
        let watches = four_letters(*server, "wchc").await;
        let lines = watches.lines().skip_while(|line| *line != format!("0x{session:x}")).skip(1);
        paths.extend(
            lines.take_while(|line| line.starts_with('\t')).map(|line| line.trim().to_owned()),
        );
    }
    paths
}

/// Returns the nodes in a directory with one request.
#[allow(clippy::panic)] // a test fails by panicking
async fn children<const KIND: usize>(zookeeper: &Setup<KIND>, dir: &str) -> Vec<String> {
    match zookeeper.client().list_children(dir).await {
        Ok(children) => children.into_iter().map(|child| format!("{dir}/{child}")).collect(),
        Err(zookeeper_client::Error::NoNode) => Vec::new(),
        Err(error) => panic!("cannot list {dir}: {error}"),
    }
}

own_cases! { ZooKeeper, beside_others,
    a_holder_that_is_given_another_session_knows_before_its_successor,
    a_waiter_with_a_replaced_session_has_one_node,
    a_longer_session_grant_does_not_extend_the_deadline,
    a_client_recovers_a_session_that_was_taken_over,
    writes_delayed_past_a_session_move_apply_once,
    a_node_of_an_old_session_is_not_taken_for_its_own,
    hundreds_of_readers_outlive_their_connection,
    hundreds_of_readers_behind_one_writer_share_its_watch,
    hundreds_of_semaphores_outlive_their_connection,
    thousands_of_waiters_outlive_their_connections,
    a_very_short_session_is_opened_over_a_slow_network,
}

pub(crate) mod cases {
    use super::*;

    /// The servers grant at least two ticks. Until the client knows that, it is patient.
    pub(crate) async fn a_very_short_session_is_opened_over_a_slow_network(t: &Case<ZooKeeper>) {
        const ASKED: Duration = Duration::from_millis(100);
        let proxies = t.proxies().await;
        proxies.set(&Mode::Delay(ASKED / 2));
        let client = t.connect(t.builder_for(&proxies.url()).session_ttl(ASKED)).await;
        assert!(client.session_ttl() > ASKED);
        locked(&client, "a").await.unlock().await.expect("released");
    }

    /// ZooKeeper refuses a session that it does not know. Other servers have granted a new one
    /// instead (<https://github.com/ClickHouse/ClickHouse/issues/116690>), which the crate accepts
    /// silently. The nodes of the old session are deleted when it expires, whatever the client does
    /// in the new one.
    pub(crate) async fn a_holder_that_is_given_another_session_knows_before_its_successor<
        const KIND: usize,
    >(
        t: &Case<Setup<KIND>>,
    ) {
        let ttl = t.store.min_ttl() * 2;
        let forged = Forged::connect(t, ttl, forget_session).await;
        let other = t.client().await;
        let (guard, waiter) = t.contended(&forged.client, &other, "exchanged").await;
        forged.reconnect().await;
        let loss = loss(guard);
        let successor = waiter.result(ttl + t.store.grace() + SOON).await.expect("granted");
        let loss = precedes_grant(loss).await;
        assert_eq!(loss.reason, LostReason::SessionExpired);
        successor.unlock().await.unwrap();
        forged.client.mutex("exchanged").lock().await.unwrap().unlock().await.unwrap();
    }

    /// The first request in the new session is to join a queue.
    pub(crate) async fn a_waiter_with_a_replaced_session_has_one_node<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let ttl = t.store.min_ttl() * 3;
        let forged = Forged::connect(t, ttl, forget_session).await;
        let other = t.client().await;
        let (guard, waiter) = t.contended(&other, &forged.client, "exchanged").await;
        let session = t.store.session_of(&waiter.key).await;
        // A waiter without a reply may still join in another session.
        eventually(SOON, "the waiter watches its predecessor", async || {
            forged.watches(guard.key(), session).await
        })
        .await;
        forged.reconnect().await;
        let second =
            within(SOON, "the second lock is granted", forged.client.mutex("second").lock())
                .await
                .unwrap();
        assert_ne!(t.store.session_of(second.key()).await, session);
        let error = waiter.result(SOON).await.expect_err("its session is lost");
        assert!(matches!(error, Error::SessionLost { .. }), "{error:?}");
        assert!(second.is_valid() && guard.is_valid());
        t.keys_within(ttl + t.store.grace(), 2).await;
        release([guard, second]).await;
    }

    /// An operator may raise the servers' timeout limits while sessions exist. Sessions that
    /// reconnect then last longer than first granted.
    pub(crate) async fn a_longer_session_grant_does_not_extend_the_deadline<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (ttl, longer) = (t.store.min_ttl(), t.store.min_ttl() * 3);
        let milliseconds = i32::try_from(longer.as_millis()).unwrap();
        let forged = Forged::connect(t, ttl, move |mut packet| {
            if packet.is_reconnect() {
                packet.set_timeout(milliseconds);
            }
        })
        .await;
        let other = t.client().await;
        let (guard, waiter) = t.contended(&forged.client, &other, "longer").await;
        forged.reconnect().await;
        throughout(ttl * 2, "the lock is held", async || guard.is_valid()).await;
        forged.proxy.set(Mode::Blackhole);
        let (cut, loss) = (Instant::now(), loss(guard));
        let successor = waiter.result(longer + SOON).await.expect("granted");
        let loss = precedes_grant(loss).await;
        assert!(cut.elapsed() > ttl + t.store.grace(), "the session was granted for longer");
        let took = loss.at.duration_since(cut);
        assert!(took < ttl, "{took:?}");
        assert_eq!(loss.reason, LostReason::DeadlinePassed);
        successor.unlock().await.unwrap();
        forged.proxy.set(Mode::Pass);
    }

    /// A third party with the session's id and password uses it elsewhere. The client reconnects
    /// every time, and loses nothing.
    pub(crate) async fn a_client_recovers_a_session_that_was_taken_over<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let [client, other] = t.clients().await;
        let guard = client.mutex("moved").lock().await.unwrap();
        let session = t.store.session_of(guard.key()).await;
        let waiter = t.enqueue(&other, "moved").await;
        let servers = t.store.network().1;
        for round in 0..12 {
            // At the client's own server and at others, and kept or dropped at once.
            let thief = taken(servers[round % servers.len()], session).await;
            let second = locked(&client, "other").await;
            assert_eq!(t.store.session_of(second.key()).await, session);
            within(SOON, "the client works", second.unlock()).await.unwrap();
            assert!(guard.is_valid() && waiter.waits());
            drop(thief);
        }
        release_both(guard, waiter).await;
    }

    /// A write is under way when the session is taken over. It arrives too late, and its repetition
    /// must not apply twice.
    pub(crate) async fn writes_delayed_past_a_session_move_apply_once<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let servers = t.store.network().1;
        let proxy = Proxy::start(servers[0], Framing::Jute).await;
        let (client, other) =
            (t.connect(t.builder_for(&format!("zk://{}", proxy.address))).await, t.client().await);
        let marker = client.mutex("marker").lock().await.unwrap();
        let session = t.store.session_of(marker.key()).await;
        for thief in [servers[1], servers[2], servers[0]] {
            // The write creates a waiter's node.
            proxy.set(Mode::BlackholeToServer);
            let joining = Waiter::of(&client, "moved");
            joining.waits_throughout(Duration::from_millis(200), "the join is under way").await;
            let theirs = taken(thief, session).await;
            proxy.set(Mode::Pass);
            let guard = joining.granted().await;
            let mut keys = t.keys().await;
            keys.retain(|key| key != marker.key());
            assert_eq!(keys, [guard.key()]);
            drop(theirs);
            // The write deletes a holder's node.
            let waiter = t.enqueue(&other, "moved").await;
            proxy.set(Mode::BlackholeToServer);
            let leaving = tokio::spawn(guard.unlock());
            throughout(Duration::from_millis(200), "the release is under way", async || {
                !leaving.is_finished()
            })
            .await;
            let theirs = taken(thief, session).await;
            proxy.set(Mode::Pass);
            within(SOON, "the lock is released", leaving).await.unwrap().unwrap();
            let successor = waiter.granted().await;
            throughout(Duration::from_millis(300), "the successor holds the lock", async || {
                successor.is_valid()
            })
            .await;
            assert!(t.keys().await.iter().any(|key| key == successor.key()));
            successor.unlock().await.unwrap();
            drop(theirs);
        }
        assert!(marker.is_valid());
        marker.unlock().await.unwrap();
    }

    /// A server may list the node of a session that ended a while ago. Waiters and its former
    /// holder must treat it as a foreign one.
    pub(crate) async fn a_node_of_an_old_session_is_not_taken_for_its_own<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let guard = client.mutex("old").lock().await.unwrap();
        let (session, key) = (t.store.session_of(guard.key()).await, guard.key().to_owned());
        t.store.end_session_of(&key).await;
        // A node with the old name, in another session, imitates the old node.
        zookeeper.make_directory(directory_of(&key)).await;
        zookeeper.make(&key, b"", CreateMode::Ephemeral).await;
        within(SOON, "the holder is notified", guard.lost()).await;
        assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
        let waiter = t.enqueue(&client, "old").await;
        assert_ne!(t.store.session_of(&waiter.key).await, session);
        waiter
            .waits_throughout(Duration::from_millis(500), "the waiter waits for the old node")
            .await;
        assert!(client.mutex("old").try_lock().await.unwrap().is_none());
        assert!(t.keys().await.contains(&key), "a foreign node was deleted");
        zookeeper.delete_key(&key).await;
        waiter.served().await;
    }

    /// Holders watch their own keys. Those of one session exceed what it could restore, so some
    /// have no watch, and a periodic read covers their keys.
    pub(crate) async fn hundreds_of_readers_outlive_their_connection<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        const READERS: usize = 450;
        let proxies = t.proxies().await;
        let client = t.connect(t.builder_for(&proxies.url())).await;
        let lock = client.rw_lock("r".repeat(250));
        // Behind a writer all readers watch one path, so they fit into one session.
        let writer = t.client().await.rw_lock("r".repeat(250)).write().await.unwrap();
        let (zookeeper, dir) = (&t.store, directory_of(writer.key()).to_owned());
        let mut reading = JoinSet::new();
        while reading.len() < READERS {
            for _ in 0..50 {
                let lock = lock.clone();
                reading.spawn(async move { lock.read().await.unwrap() });
            }
            let joined = async || children(zookeeper, &dir).await.len() > reading.len();
            eventually(SOON, "the readers are in the queue", joined).await;
        }
        writer.unlock().await.unwrap();
        let mut guards = within(SOON * 2, "all readers are granted", reading.join_all()).await;
        let session = t.store.session_of(guards[0].key()).await;
        // All watches are set once their number stops growing.
        let (mut most, mut since) = (0, Instant::now());
        let mut bytes = 0;
        eventually(SOON * 2, "holders watch their own keys", async || {
            sleep(Duration::from_millis(200)).await;
            let paths = watched(t, session).await;
            bytes = paths.iter().map(String::len).sum();
            if paths.len() > most {
                (most, since) = (paths.len(), Instant::now());
            }
            most > READERS / 3 && since.elapsed() > Duration::from_secs(4)
        })
        .await;
        println!("{most} of {READERS} are watched, {bytes} bytes");
        let before = proxies.accepted();
        proxies.hang_up();
        eventually(SOON, "the client reconnects", async || proxies.accepted() > before).await;
        // Long enough for the deadline to pass without a renewal.
        let time = client.session_ttl().mul_f64(0.7);
        throughout(time, "all locks are held", async || {
            guards.iter().all(|guard| guard.is_valid())
        })
        .await;
        assert_eq!(t.store.session_of(guards[0].key()).await, session);
        assert!(bytes < 128 * 1024, "more bytes than the crate restores in one request");
        // Keys without a watch are read every second.
        let paths = watched(t, session).await;
        let unwatched =
            guards.iter().position(|guard| !paths.iter().any(|path| path == guard.key())).unwrap();
        let unwatched = guards.swap_remove(unwatched);
        let deleted = Instant::now();
        t.store.delete_key(unwatched.key()).await;
        assert_eq!(
            within(SOON, "the holder is notified", unwatched.lost()).await,
            LostReason::Evicted
        );
        println!("notified after {:?}", deleted.elapsed());
        assert!(deleted.elapsed() < Duration::from_secs(3), "{:?}", deleted.elapsed());
        assert!(guards.iter().all(|guard| guard.is_valid()));
        drop(guards);
        eventually(SOON * 2, "all readers are released", async || {
            children(zookeeper, &dir).await.is_empty()
        })
        .await;
    }

    /// All waiters for one key watch one path, whatever their number.
    pub(crate) async fn hundreds_of_readers_behind_one_writer_share_its_watch<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        const READERS: usize = 500;
        let [other, client] = t.clients().await;
        let name = "w".repeat(200);
        let writer = other.rw_lock(&name).write().await.unwrap();
        let lock = client.rw_lock(&name);
        let (zookeeper, dir) = (&t.store, directory_of(writer.key()));
        let mut reading = JoinSet::new();
        while reading.len() < READERS {
            for _ in 0..50 {
                let lock = lock.clone();
                reading.spawn(async move { lock.read().await });
            }
            let joined = async || children(zookeeper, dir).await.len() > reading.len();
            eventually(SOON, "the readers are in the queue", joined).await;
        }
        let keys = children(zookeeper, dir).await;
        let first = keys.iter().find(|key| *key != writer.key()).unwrap();
        let session = t.store.session_of(first).await;
        // On a busy machine the last readers may still be reading the queue.
        eventually(SOON, "the readers wait", async || {
            let before = t.cost(&[session]).await;
            sleep(Duration::from_secs(3)).await;
            let spent = t.cost(&[session]).await - before;
            // The session's keepalives and pings.
            spent.requests <= 6 && spent.events == 0
        })
        .await;
        assert_eq!(watched(t, session).await, [writer.key()]);
        reading.shutdown().await;
        eventually(SOON * 2, "the readers have left", async || {
            children(zookeeper, dir).await.len() == 1
        })
        .await;
        writer.unlock().await.unwrap();
    }

    /// The client watches the key of each holder. It also watches the key of the waiter at the gate
    /// and the queue of the permits.
    pub(crate) async fn hundreds_of_semaphores_outlive_their_connection<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        const SEMAPHORES: usize = 200;
        let proxies = t.proxies().await;
        let client = t.connect(t.builder_for(&proxies.url())).await;
        let semaphore = |number: usize| client.semaphore(format!("{number:0>250}"), 1);
        // In small groups, because each call that is under way needs room in its session.
        let mut permits = Vec::new();
        while permits.len() < SEMAPHORES {
            let mut holders = JoinSet::new();
            for number in permits.len()..permits.len() + 50 {
                let semaphore = semaphore(number);
                holders.spawn(async move { semaphore.acquire().await.unwrap() });
            }
            permits.extend(within(SOON, "the permits are granted", holders.join_all()).await);
        }
        let session = t.store.session_of(permits[0].key()).await;
        let mut waiters = JoinSet::new();
        while waiters.len() < SEMAPHORES {
            for number in waiters.len()..waiters.len() + 10 {
                let semaphore = semaphore(number);
                waiters.spawn(async move { semaphore.acquire().await?.release().await });
            }
            let keys = SEMAPHORES + 2 * waiters.len();
            eventually(SOON, "the waiters have joined", async || t.keys().await.len() == keys)
                .await;
        }
        // All watches on keys are set once their number stops growing.
        let (mut most, mut since) = (0, Instant::now());
        eventually(SOON * 2, "holders and waiters watch", async || {
            sleep(Duration::from_millis(200)).await;
            let count = watched(t, session).await.len();
            if count > most {
                (most, since) = (count, Instant::now());
            }
            most > SEMAPHORES && since.elapsed() > Duration::from_secs(4)
        })
        .await;
        let before = proxies.accepted();
        proxies.hang_up();
        eventually(SOON, "the client reconnects", async || proxies.accepted() > before).await;
        // Long enough for the deadline to pass without a renewal.
        let time = client.session_ttl().mul_f64(0.7);
        throughout(time, "all permits are held", async || {
            permits.iter().all(|permit| permit.is_valid())
        })
        .await;
        drop(permits);
        for served in within(SOON * 4, "each waiter is granted", waiters.join_all()).await {
            served.unwrap();
        }
    }

    /// One session cannot restore this many watches after a lost connection, so they are spread
    /// over several.
    pub(crate) async fn thousands_of_waiters_outlive_their_connections<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        const WAITERS: usize = 2500;
        let proxies = t.proxies().await;
        let (client, other) = (t.connect(t.builder_for(&proxies.url())).await, t.client().await);
        // Each waiter has its own queue, because waiters of one session in one queue need no watch.
        let name = |number: usize| format!("crowd-{number}");
        let mut holders = JoinSet::new();
        for number in 0..WAITERS {
            let mutex = other.mutex(name(number));
            holders.spawn(async move { mutex.lock().await.unwrap() });
        }
        let guards = within(SOON, "all locks are held", holders.join_all()).await;
        let mut waiters = JoinSet::new();
        for number in 0..WAITERS {
            let mutex = client.mutex(name(number));
            waiters.spawn(async move { mutex.lock().await?.unlock().await });
        }
        eventually(SOON * 3, "all waiters watch", async || {
            let mut watches = 0;
            for server in t.store.distinct() {
                let answer = four_letters(*server, "wchs").await;
                let total = answer.lines().find_map(|line| line.strip_prefix("Total watches:"));
                watches += total.expect("a count").trim().parse::<usize>().unwrap();
            }
            watches >= WAITERS * 2
        })
        .await;
        proxies.hang_up();
        sleep(Duration::from_millis(500)).await;
        proxies.hang_up();
        let mut leaving = JoinSet::new();
        for guard in guards {
            leaving.spawn(async move { guard.unlock().await.unwrap() });
        }
        within(SOON, "all locks are released", leaving.join_all()).await;
        let all = async {
            while let Some(served) = waiters.join_next().await {
                served.unwrap().unwrap();
            }
        };
        within(SOON * 4, "each waiter is granted", all).await;
    }
}
