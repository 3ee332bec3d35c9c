//! Network faults, for stores that are reached over a network.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use distlock::{Error, LockGuard, LostReason};
use distlock_testkit::proxy::Mode;
use futures_util::future::join_all;
use tokio::{task::JoinSet, time::sleep};

use crate::common::{
    Case, Elsewhere, Job, SOON, Servers, close, connected, eventually, handover, loss, poll,
    precedes_grant, process::Process, reason, release, release_both, take_turn, throughout, within,
};

/// The server has created the key. The client only notices the end of its connection.
pub(crate) async fn a_join_whose_reply_is_lost_leaves_one_key(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    for _ in 0..3 {
        // Requests that opening a session defers have been replied to, so no request is ahead of
        // the join on the connection.
        take_turn(&client, "before").await;
        let ahead = other.mutex("join").lock().await.expect("granted");
        proxies.set(&Mode::BlackholeToClient);
        let waiter = t.enqueue(&client, "join").await;
        proxies.hang_up();
        proxies.set(&Mode::Pass);
        let guard = handover(ahead, waiter).await;
        assert_eq!(t.keys().await, [guard.key()]);
        guard.unlock().await.expect("released");
    }
}

/// The reply to the join arrives long after the client has repeated the request, and the connection
/// does not end.
pub(crate) async fn a_join_whose_reply_is_late_leaves_one_key(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    let ahead = other.mutex("join").lock().await.expect("granted");
    // See `a_join_whose_reply_is_lost_leaves_one_key`.
    take_turn(&client, "before").await;
    proxies.set(&Mode::BlackholeToClient);
    let waiter = t.enqueue(&client, "join").await;
    // More than two request timeouts, so that the client repeats the request.
    throughout(Duration::from_millis(1200), "the repeated request adds no key", async || {
        t.keys().await.len() == 2
    })
    .await;
    proxies.set(&Mode::Pass);
    let guard = handover(ahead, waiter).await;
    assert_eq!(t.keys().await, [guard.key()]);
    guard.unlock().await.expect("released");
}

/// The key of a call that was dropped before the reply is found and deleted.
pub(crate) async fn a_dropped_join_whose_reply_is_lost_leaves_nothing(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    let marker = client.mutex("marker").lock().await.expect("granted");
    let ahead = other.mutex("join").lock().await.expect("granted");
    proxies.set(&Mode::BlackholeToClient);
    let waiter = t.enqueue(&client, "join").await;
    waiter.cancel();
    proxies.hang_up();
    proxies.set(&Mode::Pass);
    eventually(SOON, "the key was deleted", async || t.keys().await.len() == 2).await;
    assert!(marker.is_valid() && ahead.is_valid());
    release([marker, ahead]).await;
}

/// An abandoned join is still in flight when another attempt has the lock and its label was
/// changed. The key that the join then creates has the former label.
pub(crate) async fn late_join_after_a_downgrade_is_deleted(t: &Case<dyn Servers>) {
    // The join arrives in about every second round. In the others its connection is closed before.
    // Each round has a new session, since a session with an unconfirmed join searches for such keys
    // until it ends.
    let (mut round, mut landed, start) = (0, 0, Instant::now());
    while landed < 2 && start.elapsed() < SOON * 2 {
        round += 1;
        let proxies = t.proxies().await;
        let client = t.hasty_client_by(&*proxies).await;
        let marker = client.mutex("marker").lock().await.expect("granted");
        // The server that the first attempt uses does not receive it yet.
        let silent = proxies.all.iter().find(|proxy| proxy.connections() > 0).expect("connected");
        silent.set(Mode::BlackholeToServer);
        let lock = client.rw_lock(format!("downgraded-{round}"));
        let writer =
            within(SOON, "another attempt is granted", lock.write()).await.expect("granted");
        let reader = writer.downgrade().await.expect("not lost");
        silent.set(Mode::Pass);
        let own = async || t.keys().await.len() == 2;
        if poll(Duration::from_millis(500), async || !own().await).await {
            landed += 1;
        }
        // At the next recheck at the latest: after 20 s plus up to a quarter.
        eventually(Duration::from_secs(30), "the reader's key is the only one", own).await;
        let second = within(SOON, "readers share", lock.read()).await.expect("granted");
        release([reader, second]).await;
        marker.unlock().await.expect("released");
    }
    println!("{landed} of {round} joins arrived late");
}

pub(crate) async fn a_release_whose_reply_is_lost_spares_the_successor(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    let (guard, waiter) = t.contended(&client, &other, "release").await;
    proxies.set(&Mode::SwallowReply);
    // The release may be unconfirmed. It must not report the lock lost.
    match within(SOON, "unlock() returns", guard.unlock()).await {
        Ok(()) | Err(Error::ReleaseUnconfirmed { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
    let successor = waiter.granted().await;
    proxies.set(&Mode::Pass);
    // The first release may be repeated any number of times.
    throughout(Duration::from_secs(2), "the successor holds the lock", async || {
        successor.is_valid() && t.keys().await == [successor.key()]
    })
    .await;
    successor.unlock().await.expect("released");
}

/// A cut in one direction suffices to lose a lock. Traffic in the other direction must not hide it.
async fn cut_one_way(t: &Case<dyn Servers>, mode: Mode) {
    let proxies = t.proxies().await;
    let holder = t.mortal_client_by(&*proxies).await;
    let other = t.client().await;
    let (guard, waiter) = t.contended(&holder, &other, "one-way").await;
    let ttl = holder.session_ttl();
    proxies.set(&mode);
    let loss = loss(guard);
    // A server that still receives keepalives keeps the lock until the client stops sending them.
    // zookeeper-client keeps reconnecting until 1.4 TTL have passed without a reply, even after it
    // has been dropped, and each attempt restarts the timeout on the server.
    let successor = waiter.result(ttl * 3 + t.store.grace()).await.expect("granted");
    assert_eq!(precedes_grant(loss).await.reason, LostReason::DeadlinePassed);
    assert!(successor.is_valid());
    successor.unlock().await.expect("released");
    proxies.set(&Mode::Pass);
}

pub(crate) async fn holder_cut_off_upstream_is_notified_before_its_successor(
    t: &Case<dyn Servers>,
) {
    cut_one_way(t, Mode::BlackholeToServer).await;
}

pub(crate) async fn holder_cut_off_downstream_is_notified_before_its_successor(
    t: &Case<dyn Servers>,
) {
    cut_one_way(t, Mode::BlackholeToClient).await;
}

/// A process that was paused for longer than its TTL checks its guard first thing on waking.
pub(crate) async fn guard_of_a_paused_process_is_lost_on_resume(t: &Case) {
    let ttl = t.store.min_ttl();
    let mut process = Process::start(&t.store.url(), &Job::new(t, "stopped", ttl));
    let token = within(SOON, "the process has the lock", process.granted()).await;
    let other = t.client().await;
    let waiter = t.enqueue(&other, "stopped").await;
    let pause = ttl + t.store.grace();
    let valid = within(pause + SOON, "the process wakes", process.sleep_through(pause)).await;
    let successor = waiter.granted().await;
    assert!(successor.fencing_token().as_u64() > token);
    assert!(!valid, "the paused holder and its successor were both valid");
    assert!(successor.is_valid());
    successor.unlock().await.expect("released");
}

/// A process drops its guard, client and runtime, and exits at once. The release may still be sent.
/// Otherwise the lock is free when the session expires.
pub(crate) async fn exiting_process_frees_its_lock(t: &Case) {
    let ttl = t.store.min_ttl();
    let mut process = Process::start(&t.store.url(), &Job::new(t, "exit", ttl));
    let token = within(SOON, "the process has the lock", process.granted()).await;
    let other = t.client().await;
    let waiter = t.enqueue(&other, "exit").await;
    let left = process.leave().await;
    let guard = waiter.result(ttl + t.store.grace()).await.expect("granted");
    println!("succeeded after {:?} of {ttl:?}", left.elapsed());
    assert!(guard.fencing_token().as_u64() > token);
    guard.unlock().await.expect("released");
}

/// Two clients contend for a lock on flapping networks. Each holds it, or its guard is lost.
pub(crate) async fn flapping_networks_never_make_two_holders(t: &Case<dyn Servers>) {
    let guards: Arc<[Mutex<Option<LockGuard>>; 2]> = Arc::default();
    let grants = Arc::new(AtomicU32::new(0));
    let (mut tasks, mut networks) = (JoinSet::new(), Vec::new());
    for place in 0..2 {
        let proxies = t.proxies().await;
        networks.push(Arc::clone(&proxies));
        let client = t.mortal_client_by(&*proxies).await;
        tasks.spawn(async move {
            loop {
                sleep(Duration::from_millis(fastrand::u64(200..600))).await;
                proxies.set(&Mode::Blackhole);
                sleep(Duration::from_millis(fastrand::u64(200..1600))).await;
                proxies.set(&Mode::Pass);
            }
        });
        let (guards, grants) = (Arc::clone(&guards), Arc::clone(&grants));
        tasks.spawn(async move {
            loop {
                // Retryable errors are expected here.
                let guard = match client.mutex("flapping").lock().await {
                    Ok(guard) => guard,
                    Err(error) if error.is_retryable() => continue,
                    Err(error) => panic!("{error:?}"),
                };
                grants.fetch_add(1, SeqCst);
                guards[place].lock().expect("no panic").replace(guard);
                sleep(Duration::from_millis(fastrand::u64(100..1000))).await;
                let guard = guards[place].lock().expect("no panic").take().expect("just put there");
                match guard.unlock().await {
                    Ok(()) | Err(Error::Lost { .. } | Error::ReleaseUnconfirmed { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    let valid = |place: usize| {
        let guard = guards[place].lock().expect("no panic");
        guard.as_ref().filter(|guard| guard.is_valid()).map(LockGuard::fencing_token)
    };
    let alone = async || {
        let (before, other, after) = (valid(0), valid(1), valid(0));
        // However long the checks take: a guard that is valid before and after was valid in
        // between.
        before.is_none() || other.is_none() || before != after
    };
    let start = Instant::now();
    throughout(Duration::from_secs(12), "there is one holder", alone).await;
    // On a busy machine, more sessions end while their client is cut off.
    eventually(Duration::from_secs(25), "enough grants to prove anything", async || {
        assert!(alone().await, "there are two holders");
        grants.load(SeqCst) >= 4
    })
    .await;
    let time = start.elapsed();
    for proxies in networks {
        let rate = proxies.accepted() as f64 / time.as_secs_f64() / t.store.at_once();
        println!("{rate:.1} connections a second");
        assert!(rate < 3.0, "{rate:.1} connections a second");
    }
    assert!(tasks.try_join_next().is_none(), "a task failed");
    tasks.shutdown().await;
    drop(guards.each_ref().map(|guard| guard.lock().expect("no panic").take()));
    t.heal();
    // Lost sessions expire by themselves.
    t.keys_within(t.store.min_ttl() + t.store.grace(), 0).await;
}

pub(crate) async fn locks_and_waiters_outlive_their_connections(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    let guard = client.mutex("held").lock().await.expect("granted");
    let (ahead, waiter) = t.contended(&other, &client, "awaited").await;
    for _ in 0..5 {
        proxies.hang_up();
        sleep(Duration::from_millis(200)).await;
        assert!(guard.is_valid() && waiter.waits());
    }
    assert_eq!(t.keys().await.len(), 2 + usize::from(t.store.queues()));
    release_both(ahead, waiter).await;
    guard.unlock().await.expect("released");
}

/// The predecessor leaves while the waiter's connection is down.
pub(crate) async fn release_during_a_disconnect_is_noticed_after_reconnect(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    let (guard, waiter) = t.contended(&other, &client, "seen").await;
    proxies.set(&Mode::Refuse);
    guard.unlock().await.expect("released");
    proxies.set(&Mode::Pass);
    waiter.served().await;
}

/// The predecessor leaves between the reply that names it and the watch on it, so no event reports
/// it.
pub(crate) async fn release_before_the_watch_is_noticed_at_once(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
    let guard = other.mutex("before").lock().await.expect("granted");
    // A waiter in between. Directly behind a holder, the watch would come with a read of its own.
    let middle = t.enqueue(&other, "before").await;
    // The reply to the join is delayed this long, and then so is the request for the watch.
    proxies.set(&Mode::Delay(Duration::from_millis(200)));
    let waiter = t.enqueue(&client, "before").await;
    middle.cancel();
    t.queue_of(2).await;
    guard.unlock().await.expect("released");
    // Earlier than at the next recheck.
    waiter.result(Duration::from_secs(5)).await.expect("granted").unlock().await.expect("released");
    proxies.set(&Mode::Pass);
}

/// Servers occasionally lose events, even on healthy connections.
pub(crate) async fn lost_event_is_recovered_by_the_recheck(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let recheck = Duration::from_secs(2);
    let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
    let other = t.client().await;
    let (guard, waiter) = t.contended(&other, &client, "event").await;
    // Its watch exists once the server is silent.
    sleep(Duration::from_millis(500)).await;
    proxies.set(&Mode::Drop(guard.key().as_bytes().into()));
    let released = Instant::now();
    guard.unlock().await.expect("released");
    if t.store.notifies() {
        waiter.waits_throughout(Duration::from_millis(300), "the event is lost").await;
    }
    let granted = waiter.result(recheck * 2).await.expect("granted");
    assert!(released.elapsed() < recheck * 2);
    proxies.set(&Mode::Pass);
    granted.unlock().await.expect("released");
}

/// The lost event is that of a holder whose key an operator has deleted.
pub(crate) async fn a_holder_whose_event_was_lost_is_notified_by_the_recheck(
    t: &Case<dyn Servers>,
) {
    let proxies = t.proxies().await;
    let recheck = Duration::from_secs(3);
    let client = t.connect(t.builder_for(&proxies.url()).recheck_interval(recheck)).await;
    let guard = client.mutex("held").lock().await.expect("granted");
    let bystander = client.mutex("bystander").lock().await.expect("granted");
    // Its watch starts late. It exists once the server has been silent for a while.
    let (mut count, mut since) = (proxies.packets(), Instant::now());
    eventually(SOON, "the key is watched", async || {
        if count != proxies.packets() {
            (count, since) = (proxies.packets(), Instant::now());
        }
        since.elapsed() > Duration::from_millis(700)
    })
    .await;
    proxies.set(&Mode::DropOne(guard.key().as_bytes().into()));
    let deleted = Instant::now();
    t.store.delete_key(guard.key()).await;
    if t.store.notifies() {
        throughout(Duration::from_millis(200), "the event is lost", async || guard.is_valid())
            .await;
    }
    let limit = recheck.mul_f64(1.25) + Duration::from_secs(1);
    assert_eq!(within(limit, "the holder is notified", guard.lost()).await, LostReason::Evicted);
    println!("notified after {:?}", deleted.elapsed());
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    proxies.set(&Mode::Pass);
    assert!(bystander.is_valid(), "one key is one lock, not the session");
    bystander.unlock().await.expect("released");
}

/// The store counts the TTL from the arrival of the request, so the duration of the reply is not
/// part of it.
pub(crate) async fn late_keepalive_replies_count_from_their_requests(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let client = t.connect(t.builder_for(&proxies.url()).session_ttl(t.store.min_ttl() * 3)).await;
    let delay = client.session_ttl() / 20;
    let guard = client.mutex("late").lock().await.expect("granted");
    // Returns the time left just after a keepalive, when it is longest.
    let renewed = async || {
        let mut left = guard.remaining();
        let rises = poll(client.session_ttl(), async || {
            let now = guard.remaining();
            now > std::mem::replace(&mut left, now)
        });
        assert!(rises.await && guard.is_valid(), "the session is not kept alive");
        left
    };
    let at_once = renewed().await;
    proxies.set(&Mode::Delay(delay));
    // This keepalive may have been in flight already.
    renewed().await;
    for _ in 0..2 {
        let left = renewed().await;
        // A round trip is twice the delay. The difference is for a busy machine.
        assert!(
            left < at_once - delay,
            "{left:?} left after a late reply, {at_once:?} after a quick one"
        );
    }
    proxies.set(&Mode::Pass);
    guard.unlock().await.expect("released");
}

/// Round trips of varying length take most of the time between two keepalives.
pub(crate) async fn a_slow_network_loses_nothing(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let client = t.connect(t.builder_for(&proxies.url()).session_ttl(t.store.min_ttl() * 2)).await;
    let ttl = client.session_ttl();
    let guard = client.mutex("slow").lock().await.expect("granted");
    let round_trip = (ttl / 3).mul_f64(t.store.bearable_round_trip());
    proxies.set(&Mode::Jitter(round_trip / 2));
    let mut least = guard.remaining();
    throughout(ttl * 3, "the lock is held", async || {
        least = least.min(guard.remaining());
        guard.is_valid()
    })
    .await;
    println!(
        "with round trips of {round_trip:?} and more {least:?} of {ttl:?} were left \
         at the worst moment"
    );
    // The deadline counts from the sending of a keepalive, so it is already closer when the reply
    // arrives.
    assert!(
        guard.remaining() < ttl.mul_f64(0.9) - round_trip / 4,
        "{:?} of {ttl:?}",
        guard.remaining()
    );
    within(SOON, "the slow release completes", guard.unlock()).await.expect("released");
    proxies.set(&Mode::Pass);
}

/// The time limit of a server's reply. On a busy machine, half a second was not enough.
const ANSWERS: Duration = Duration::from_secs(1);

/// One of several servers is dead, or silent from the start. Each client still acquires its lock
/// soon.
async fn one_bad_endpoint(t: &Case<dyn Servers>, mode: Mode, timeout: Duration, limit: Duration) {
    let proxies = t.proxies().await;
    for bad in 0..proxies.all.len() {
        proxies.set(&Mode::Pass);
        proxies.all[bad].set(mode.clone());
        // Concurrently, since each may wait for the bad server.
        let locking = (0..3).map(async |number| {
            let start = Instant::now();
            let builder = t.builder_for(&proxies.url()).request_timeout(timeout);
            let client = connected(builder).await;
            take_turn(&client, &format!("others-{number}")).await;
            close([client]).await;
            let took = start.elapsed();
            assert!(took < limit, "the calls took {took:?}");
        });
        join_all(locking).await;
    }
}

/// No request waits for its timeout.
pub(crate) async fn one_refused_endpoint_does_no_harm(t: &Case<dyn Servers>) {
    one_bad_endpoint(t, Mode::Refuse, ANSWERS * 5, ANSWERS * 5).await;
}

pub(crate) async fn one_silent_endpoint_does_no_harm(t: &Case<dyn Servers>) {
    one_bad_endpoint(t, Mode::Blackhole, ANSWERS, ANSWERS * 10).await;
}

/// The server in use falls silent, and the client finds another one before the session is lost.
pub(crate) async fn a_lock_outlives_its_server_falling_silent(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let builder = t.builder_for(&proxies.url()).session_ttl(Duration::from_secs(6));
    let client = t.connect(builder.request_timeout(Duration::from_secs(1))).await;
    let guard = client.mutex("silent").lock().await.expect("granted");
    let used: Vec<_> = proxies.all.iter().filter(|proxy| proxy.connections() > 0).collect();
    assert_eq!(
        used.len() as f64,
        t.store.at_once(),
        "the client connects only to the servers it needs"
    );
    used[0].set(Mode::Blackhole);
    throughout(client.session_ttl() * 2, "the lock is held", async || guard.is_valid()).await;
    within(SOON, "the other servers apply the release", guard.unlock()).await.expect("released");
    used[0].set(Mode::Pass);
}

pub(crate) async fn refused_endpoints_are_unavailable_at_once(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    proxies.set(&Mode::Refuse);
    let start = Instant::now();
    let error = t.builder_for(&proxies.url()).connect().await.expect_err("no server is reachable");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "each server is tried only once: {:?}",
        start.elapsed()
    );
    let text = reason(&error);
    assert!(text.contains("127.0.0.1"), "no endpoint is named: {text}");
    proxies.set(&Mode::Pass);
}
