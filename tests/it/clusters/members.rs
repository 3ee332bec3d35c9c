//! Members of etcd that die, pause or lag behind, and a lost quorum.

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

/// Returns the members, with the leader first.
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
        // Longer than the TTL, so the other members renew the lease.
        waiter.waits_behind(&guard, ttl).await;
        let busy = within(SOON, "the other members reply", client.mutex("kept").try_lock()).await;
        assert!(busy.expect("the other members are a majority").is_none());
        outage.end().await;
        all_serve(t).await;
        assert!(guard.is_valid() && waiter.waits());
        release_both(guard, waiter).await;
    })
    .await;
}

/// A leader that was paused for longer than a lease may briefly act as the leader, and treat the
/// lease as live (<https://github.com/etcd-io/etcd/issues/15247>). Its client must not trust it.
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
        // A new leader restarts the lease's TTL.
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

/// Tries repeatedly to get the lock, and keeps it once granted.
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

    fn release(&self) {
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

/// Without a quorum the holder's lock expires at its deadline, and no lock is granted until the
/// quorum is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_no_lock_is_granted() {
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
        let reason = within(ttl, "the holder is notified", guard.lost()).await;
        println!("notified after {:?} of {ttl:?}: {reason}", start.elapsed());
        assert_eq!(reason, LostReason::DeadlinePassed);
        // In two more TTLs every session would have expired, if the servers could confirm it.
        throughout(ttl * 2, "no lock is granted", async || grants.load(SeqCst) == 0).await;
        for outage in outages {
            outage.end().await;
        }
        all_serve(t).await;
        eventually(SOON * 2, "a lock is granted", async || grants.load(SeqCst) > 0).await;
        throughout(ttl / 2, "there is one holder", async || {
            // A guard that is valid before and after the other one's check was valid in between.
            let (before, other, after) =
                (contenders[0].holds(), contenders[1].holds(), contenders[0].holds());
            let two = before && other && after;
            !two && !guard.is_valid()
        })
        .await;
        // The holder releases, and the other contender is granted the lock.
        eventually(SOON * 2, "both are granted", async || {
            contenders.iter().for_each(Contender::release);
            grants.load(SeqCst) == 2
        })
        .await;
        for contender in contenders {
            // Its guard is dropped with it.
            within(SOON, "the contender ends", contender.task).await.expect("no panic");
        }
    })
    .await;
}

/// A member that is cut off, and lags behind for a while after, grants nothing early or out of
/// order (<https://github.com/etcd-io/etcd/issues/20221>).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lags_grants_nothing() {
    on_etcd(async |t| {
        let members = members(t).await;
        let (name, follower) = members[2];
        // Longer than the member is cut off.
        let builder = t.builder_for(&format!("etcd://{follower}"));
        let behind = t.connect(builder.session_ttl(Duration::from_secs(60))).await;
        let others = format!("etcd://{},{}", members[0].1, members[1].1);
        let [one, two] =
            [t.connect(t.builder_for(&others)).await, t.connect(t.builder_for(&others)).await];
        let (guard, waiter) = t.contended(&one, &behind, "lagging").await;
        let cut = Cut::off(name).await;
        // The waiter's predecessor leaves, and another waiter joins, while the member is cut off.
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
        let both_wait = throughout(Duration::from_secs(5), "both wait", async || {
            waiter.waits() && later.waits()
        });
        tokio::select! {
            () = tries => unreachable!("the tries never end"),
            () = both_wait => {}
        }
        cut.heal().await;
        let first = waiter.result(SOON * 2).await.expect("granted");
        assert!(first.is_valid() && later.waits());
        all_serve(t).await;
        assert!(behind.mutex("elsewhere").try_lock().await.expect("a reply").is_none());
        release_both(first, later).await;
        held.unlock().await.unwrap();
    })
    .await;
}
