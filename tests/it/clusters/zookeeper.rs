//! ZooKeeper without its leader, and without a quorum.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use distlock::{Client, Error, LockGuard, LostReason};
use distlock_testkit::docker::{Cut, Outage};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::common::{
    Case, Harness, Members, SOON, alone, eventually, handover, own_cases, release, throughout,
    within,
    zookeeper::{ZooKeeper, mode_of},
};

/// The number of ticks, of a second, after which leader and followers give each other up
/// (docker/compose.yml).
const SYNC_LIMIT: Duration = Duration::from_secs(10);

/// The time limit for an election, which starts only after `SYNC_LIMIT`.
const ELECTION: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
struct Member {
    name: &'static str,
    address: SocketAddr,
}

struct Ensemble {
    leader: Member,
    followers: [Member; 2],
}

impl Ensemble {
    /// Returns the ensemble as soon as it is complete.
    async fn of(t: &Case<ZooKeeper>) -> Self {
        let mut found = None;
        eventually(SOON * 3, "a leader has two followers", async || {
            let (mut leaders, mut followers) = (Vec::new(), Vec::new());
            for (name, address) in t.store.servers() {
                match mode_of(address).await.as_str() {
                    "leader" => leaders.push(Member { name, address }),
                    "follower" => followers.push(Member { name, address }),
                    _ => {}
                }
            }
            let followers = followers.try_into().ok();
            found =
                leaders.pop().zip(followers).map(|(leader, followers)| Self { leader, followers });
            found.is_some()
        })
        .await;
        found.expect("just seen")
    }

    fn leader_url(&self) -> String {
        format!("zk://{}", self.leader.address)
    }

    fn followers_url(&self) -> String {
        let [one, two] = self.followers.map(|follower| follower.address);
        format!("zk://{one},{two}")
    }
}

/// Acquires the lock, even if the session is lost repeatedly.
async fn lock_at_last(client: Client, name: &'static str) -> LockGuard {
    loop {
        match client.mutex(name).lock().await {
            Ok(guard) => return guard,
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(100)).await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Returns how long a lock is valid after the last confirmed keepalive, counted from its sending.
fn confirmed(ttl: Duration) -> Duration {
    ttl * 6 / 10
}

/// Waits until the session depends on keepalives alone, because its opening counts for longer. The
/// end is a random moment between two keepalives.
async fn grow_up(ttl: Duration) {
    sleep(ttl + (ttl / 3).mul_f64(fastrand::f64())).await;
}

/// The notification of a holder that its lock is lost.
struct Notice {
    at: Instant,
    reason: LostReason,
    valid: bool,
    /// The latest deadline that the guard ever had.
    deadline: Instant,
    /// The mode that the server reported.
    mode: String,
}

impl Notice {
    fn assert_nothing_was_confirmed(&self, since: Instant, ttl: Duration) {
        let latest = self.deadline.duration_since(since);
        // Earlier requests may still be confirmed. The clock and the guard are read one after the
        // other.
        assert!(latest <= confirmed(ttl) + Duration::from_millis(20), "{latest:?} of {ttl:?}");
        assert!(self.at < self.deadline + Duration::from_secs(1), "notified late");
    }
}

fn notice(guard: LockGuard, server: Member) -> JoinHandle<Notice> {
    tokio::spawn(async move {
        let mut deadline = Instant::now();
        let watched = async {
            loop {
                deadline = deadline.max(Instant::now() + guard.remaining());
                sleep(Duration::from_millis(20)).await;
            }
        };
        let reason = tokio::select! {
            biased;
            reason = guard.lost() => reason,
            () = watched => unreachable!("the watch never ends"),
        };
        let (at, valid) = (Instant::now(), guard.is_valid());
        Notice { at, reason, valid, deadline, mode: mode_of(server.address).await }
    })
}

/// A period in which a lock was certainly held.
struct Held {
    token: u64,
    from: Instant,
    until: Instant,
}

/// No lock is granted while the followers are away. Afterwards each contender is granted it, one at
/// a time.
async fn without_a_quorum(
    t: &Case<ZooKeeper>,
    name: &'static str,
    outage: impl AsyncFn(&'static str) -> Outage,
) {
    let ensemble = Ensemble::of(t).await;
    let (holder, mut contenders) = (t.mortal_client().await, JoinSet::new());
    let ttl = holder.session_ttl();
    let guard = holder.mutex(name).lock().await.expect("granted");
    for client in
        [holder, t.mortal_client().await, t.mortal_client().await, t.mortal_client().await]
    {
        contenders.spawn(async move {
            loop {
                let guard = lock_at_last(client.clone(), name).await;
                let (token, from) = (guard.fencing_token().as_u64(), Instant::now());
                let _ = guard.run(sleep(Duration::from_millis(100))).await;
                let until = Instant::now();
                // The session may be about to expire: then the turn does not count.
                if guard.is_valid() {
                    match guard.unlock().await {
                        Ok(()) | Err(Error::Lost { .. } | Error::ReleaseUnconfirmed { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                    return Held { token, from, until };
                }
            }
        });
    }
    t.queue_of(5).await;
    grow_up(ttl).await;
    let notice = notice(guard, ensemble.leader);
    let [one, two] = ensemble.followers.map(|follower| outage(follower.name));
    let (one, two) = tokio::join!(one, two);
    let lost = Instant::now();
    sleep(ttl * 3).await;
    let healed = Instant::now();
    tokio::join!(one.end(), two.end());
    let notice = within(SOON, "the holder is notified", notice).await.expect("no panic");
    println!("notified {:?} after the quorum was lost", notice.at.duration_since(lost));
    assert_eq!((notice.reason, notice.valid), (LostReason::DeadlinePassed, false));
    notice.assert_nothing_was_confirmed(lost, ttl);
    let mut turns = within(SOON * 3, "all contenders are granted", contenders.join_all()).await;
    turns.sort_by_key(|turn| turn.token);
    // The followers do not fail at the same time: a handover may precede the second failure.
    assert!(
        turns.iter().all(|turn| turn.from < lost || turn.from > healed),
        "granted without a quorum"
    );
    println!(
        "the first grant was {:?} after healing, the last one {:?}",
        turns[0].from - healed,
        turns[3].from - healed
    );
    for pair in turns.windows(2) {
        assert!(
            pair[0].token < pair[1].token && pair[0].until < pair[1].from,
            "two holders at a time"
        );
    }
    Ensemble::of(t).await;
}

/// The leader does not notice, and keeps serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_granted_while_the_followers_are_paused() {
    alone::<ZooKeeper>(async |t| without_a_quorum(t, "paused", Outage::pause).await).await;
}

/// The leader steps down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_granted_while_the_followers_are_dead() {
    alone::<ZooKeeper>(async |t| without_a_quorum(t, "dead", Outage::kill).await).await;
}

own_cases! { ZooKeeper, alone,
    a_holder_on_a_leader_that_is_cut_off_knows_before_its_successor,
    a_leader_that_was_paused_grants_nothing_when_it_wakes,
    a_lock_outlives_its_leader,
}

mod cases {
    use super::*;

    /// A leader that is cut off keeps serving its own clients as the leader until it misses its
    /// followers' replies: here for ten ticks. Its proposals reach no follower, so it confirms
    /// nothing, and the holder's deadline passes.
    pub(super) async fn a_holder_on_a_leader_that_is_cut_off_knows_before_its_successor(
        t: &Case<ZooKeeper>,
    ) {
        let ensemble = Ensemble::of(t).await;
        let ttl = t.store.min_ttl();
        let holder = t.connect(t.builder_for(&ensemble.leader_url()).session_ttl(ttl)).await;
        let other = t.connect(t.builder_for(&ensemble.followers_url()).session_ttl(ttl)).await;
        let guard = holder.mutex("cut").lock().await.unwrap();
        let waiter = tokio::spawn(lock_at_last(other, "cut"));
        t.queue_of(2).await;
        grow_up(ttl).await;
        let cut = Cut::off(ensemble.leader.name).await;
        let start = Instant::now();
        let notice = notice(guard, ensemble.leader);
        let successor = within(ELECTION + ttl, "the successor is granted", waiter).await.unwrap();
        let granted = Instant::now();
        assert!(notice.is_finished(), "the successor was granted before the holder was notified");
        let notice = notice.await.unwrap();
        println!(
            "notified after {:?} of {ttl:?}, {:?} before the grant",
            notice.at.duration_since(start),
            granted.duration_since(notice.at)
        );
        assert!(notice.at < granted && !notice.valid);
        assert_eq!((notice.reason, notice.mode.as_str()), (LostReason::DeadlinePassed, "leader"));
        notice.assert_nothing_was_confirmed(start, ttl);
        successor.unlock().await.unwrap();
        cut.heal().await;
        Ensemble::of(t).await;
        eventually(SOON * 2, "the server serves again", async || {
            holder.mutex("cut").try_lock().await.is_ok()
        })
        .await;
    }

    /// The followers have elected another leader when this one resumes. Until it notices, it knows
    /// the old holder's node and no other.
    pub(super) async fn a_leader_that_was_paused_grants_nothing_when_it_wakes(t: &Case<ZooKeeper>) {
        let ensemble = Ensemble::of(t).await;
        let ttl = t.store.min_ttl();
        let holder = t.connect(t.builder_for(&ensemble.leader_url()).session_ttl(ttl)).await;
        let other = t.connect(t.builder_for(&ensemble.followers_url())).await;
        let guard = holder.mutex("paused").lock().await.unwrap();
        let waiter = tokio::spawn(lock_at_last(other, "paused"));
        t.queue_of(2).await;
        grow_up(ttl).await;
        let paused = Outage::pause(ensemble.leader.name).await;
        let start = Instant::now();
        let notice = notice(guard, ensemble.leader);
        let successor = within(ELECTION + ttl, "the successor is granted", waiter).await.unwrap();
        let granted = Instant::now();
        assert!(start.elapsed() > SYNC_LIMIT, "the leader was paused for too short a time");
        paused.end().await;
        let notice = within(SOON, "the holder is notified", notice).await.unwrap();
        println!("notified {:?} before the grant", granted.duration_since(notice.at));
        assert!(notice.at < granted && !notice.valid);
        notice.assert_nothing_was_confirmed(start, ttl);
        let mut refused = false;
        throughout(Duration::from_secs(4), "only the successor holds the lock", async || {
            let outcome = holder.mutex("paused").try_lock().await;
            refused |= matches!(outcome, Ok(None));
            successor.is_valid() && !matches!(outcome, Ok(Some(_)))
        })
        .await;
        assert!(refused, "no attempt was refused");
        successor.unlock().await.unwrap();
        Ensemble::of(t).await;
        lock_at_last(holder, "paused").await.unlock().await.unwrap();
    }

    /// An election is quick if the leader is known to be dead.
    pub(super) async fn a_lock_outlives_its_leader(t: &Case<ZooKeeper>) {
        let ensemble = Ensemble::of(t).await;
        let clients = [ensemble.leader_url(), ensemble.followers_url(), t.store.url()];
        let [at_leader, at_followers, anywhere] = clients;
        // A client that knows only the leader loses its lock with the leader.
        let leader_client =
            t.connect(t.builder_for(&at_leader).session_ttl(t.store.min_ttl())).await;
        let orphaned = leader_client.mutex("orphaned").lock().await.unwrap();
        let holder = t.connect(t.builder_for(&anywhere).session_ttl(Duration::from_secs(20))).await;
        let other =
            t.connect(t.builder_for(&at_followers).session_ttl(Duration::from_secs(20))).await;
        let (guard, waiter) = t.contended(&holder, &other, "killed").await;
        let inheriting = tokio::spawn(lock_at_last(other.clone(), "orphaned"));
        t.queue_of(4).await;
        let killed = Outage::kill(ensemble.leader.name).await;
        let notice = notice(orphaned, ensemble.leader);
        let inherited = within(SOON, "the orphaned lock becomes free", inheriting).await.unwrap();
        let granted = Instant::now();
        let notice =
            within(Duration::from_secs(1), "the holder is notified", notice).await.unwrap();
        println!("notified {:?} before the grant", granted.duration_since(notice.at));
        assert!(notice.at < granted && !notice.valid);
        waiter.waits_behind(&guard, Duration::from_secs(4)).await;
        let token = guard.fencing_token();
        let successor = handover(guard, waiter).await;
        assert!(successor.fencing_token() > token, "tokens rise from one leader to the next");
        release([successor, inherited]).await;
        killed.end().await;
        Ensemble::of(t).await;
        lock_at_last(leader_client, "orphaned").await.unlock().await.unwrap();
    }
}
