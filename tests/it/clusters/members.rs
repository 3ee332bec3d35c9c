//! Members of etcd that die, stand still or lag behind, and a quorum that is lost.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use distlock::{Client, LockGuard, LostReason};
use distlock_testkit::docker::{Cut, Outage};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    clusters::on_etcd,
    common::{
        Case, Loss, Members, SOON, etcd::Etcd, eventually, loss, precedes_grant, release_both,
        throughout, within,
    },
};

/// The members: the leader first.
async fn members(t: &Case<Etcd>) -> Vec<(&'static str, std::net::SocketAddr)> {
    let mut members = t.store.servers();
    members.swap(0, t.store.leader().await);
    members
}

async fn all_serve(t: &Case<Etcd>) {
    for (name, member) in t.store.servers() {
        eventually(SOON * 2, &format!("{name} serves"), async || t.store.serves(member).await)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_costs_no_lock() {
    on_etcd(async |t| {
        let ttl = Duration::from_secs(8);
        let (client, other) = (t.connect(t.builder().session_ttl(ttl)).await, t.client().await);
        let (guard, waiter) = t.contended(&client, &other, "kept").await;
        let outage = Outage::kill(members(t).await[0].0).await;
        // It outlives the TTL, so it is kept alive by the others.
        waiter.waits_behind(&guard, ttl).await;
        let busy = within(SOON, "the others answer", client.mutex("kept").try_lock()).await;
        assert!(busy.expect("they are a majority").is_none());
        outage.end().await;
        all_serve(t).await;
        assert!(guard.is_valid() && waiter.waits());
        release_both(guard, waiter).await;
    })
    .await;
}

/// A leader that stood still for longer than a lease wakes and may believe for a moment that it
/// still leads, and that the lease still lives (<https://github.com/etcd-io/etcd/issues/15247>):
/// its client knows better.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_brings_no_lock_back() {
    on_etcd(async |t| {
        let members = members(t).await;
        let only_leader = t.builder_for(&format!("etcd://{}", members[0].1));
        let others = format!("etcd://{},{}", members[1].1, members[2].1);
        let holder = t.connect(only_leader.session_ttl(Duration::from_secs(4))).await;
        let other = t.connect(t.builder_for(&others)).await;
        let (guard, waiter) = t.contended(&holder, &other, "asleep").await;
        let (outage, start) = (Outage::pause(members[0].0).await, Instant::now());
        let loss = loss(guard);
        // A new leader counts the lease anew.
        let successor = waiter.result(Duration::from_secs(15)).await.expect("granted");
        let Loss { reason, guard, .. } = precedes_grant(loss).await;
        assert_eq!(reason, LostReason::DeadlinePassed);
        sleep(Duration::from_secs(10).saturating_sub(start.elapsed())).await;
        outage.end().await;
        throughout(Duration::from_secs(2), "there is one holder", async || {
            successor.is_valid() && !guard.is_valid()
        })
        .await;
        all_serve(t).await;
        assert_eq!(t.keys().await, [successor.key()]);
        successor.unlock().await.unwrap();
    })
    .await;
}

/// Keeps asking for the lock and keeps it once it has it.
struct Contender {
    guard: Arc<Mutex<Option<LockGuard>>>,
    task: JoinHandle<()>,
}

impl Contender {
    fn new(client: Client, grants: &Arc<AtomicUsize>) -> Self {
        let guard = Arc::<Mutex<Option<LockGuard>>>::default();
        let (slot, grants) = (Arc::clone(&guard), Arc::clone(grants));
        let task = tokio::spawn(async move {
            loop {
                match client.mutex("quorum").lock().await {
                    Ok(guard) => {
                        grants.fetch_add(1, SeqCst);
                        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
                        return;
                    }
                    Err(error) => assert!(error.is_retryable(), "{error:?}"),
                }
            }
        });
        Self { guard, task }
    }

    fn let_go(&self) {
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn holds(&self) -> bool {
        self.guard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(LockGuard::is_valid)
    }
}

/// Without a quorum nobody can know who holds the lock: the holder lets go at its deadline, and
/// nobody follows until the quorum is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nobody_is_granted() {
    on_etcd(async |t| {
        let ttl = Duration::from_secs(4);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(t.connect(t.builder().session_ttl(ttl)).await);
        }
        let guard = clients[0].mutex("quorum").lock().await.unwrap();
        let grants = Arc::new(AtomicUsize::new(0));
        let contenders: Vec<_> =
            clients[1..].iter().map(|client| Contender::new(client.clone(), &grants)).collect();
        t.queue_of(3).await;
        let members = members(t).await;
        let (start, outages) = (
            Instant::now(),
            [Outage::pause(members[0].0).await, Outage::pause(members[1].0).await],
        );
        let reason = within(ttl, "the holder is told", guard.lost()).await;
        println!("notified after {:?} of {ttl:?}: {reason}", start.elapsed());
        assert_eq!(reason, LostReason::DeadlinePassed);
        // Two more TTLs: every session would be over by then, if the servers could say so.
        throughout(ttl * 2, "nobody is granted", async || grants.load(SeqCst) == 0).await;
        for outage in outages {
            outage.end().await;
        }
        all_serve(t).await;
        eventually(SOON * 2, "somebody is granted", async || grants.load(SeqCst) > 0).await;
        throughout(ttl / 2, "there is one holder", async || {
            // However long a question takes: what was valid before and after was so between.
            let (before, other, after) =
                (contenders[0].holds(), contenders[1].holds(), contenders[0].holds());
            let two = before && other && after;
            !two && !guard.is_valid()
        })
        .await;
        // The holder lets go, and the other one has its turn.
        eventually(SOON * 2, "both are granted", async || {
            contenders.iter().for_each(Contender::let_go);
            grants.load(SeqCst) == 2
        })
        .await;
        for contender in contenders {
            // Its guard goes with it.
            within(SOON, "it is served", contender.task).await.expect("no panic");
        }
    })
    .await;
}

/// A member that is cut off, and behind for a while when it is back, lets nobody in before its turn
/// or out of order (<https://github.com/etcd-io/etcd/issues/20221>).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lags_grants_nothing() {
    on_etcd(async |t| {
        let members = members(t).await;
        let (name, follower) = members[2];
        // Longer than it is away.
        let builder = t.builder_for(&format!("etcd://{follower}"));
        let behind = t.connect(builder.session_ttl(Duration::from_secs(60))).await;
        let others = format!("etcd://{},{}", members[0].1, members[1].1);
        let [one, two] =
            [t.connect(t.builder_for(&others)).await, t.connect(t.builder_for(&others)).await];
        let (guard, waiter) = t.contended(&one, &behind, "lagging").await;
        let cut = Cut::off(name).await;
        // Its turn comes while it cannot know; what comes after it joins while it is away.
        guard.unlock().await.unwrap();
        let later = t.enqueue(&two, "lagging").await;
        let held = one.mutex("elsewhere").lock().await.unwrap();
        let tries = async {
            loop {
                if let Ok(granted) = behind.mutex("elsewhere").try_lock().await {
                    assert!(granted.is_none(), "a held lock is granted");
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let patience = throughout(Duration::from_secs(5), "both wait", async || {
            waiter.waits() && later.waits()
        });
        tokio::select! {
            () = tries => unreachable!("it has no end"),
            () = patience => {}
        }
        cut.heal().await;
        let first = waiter.result(SOON * 2).await.expect("granted");
        assert!(first.is_valid() && later.waits());
        all_serve(t).await;
        assert!(behind.mutex("elsewhere").try_lock().await.expect("an answer").is_none());
        release_both(first, later).await;
        held.unlock().await.unwrap();
    })
    .await;
}
