//! Elections: one leader at a time, and observers never see an earlier one again.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{
    Case, SOON, Sessions, Waiter, eventually, handover, release_both, throughout, within,
};
use distlock::{
    Client, Error, FencingToken, Leader, Leadership, LeadershipHandle, LockGuard, LostReason,
    Observe, QueueEntry, QueueWatch, Result,
};

/// Starts a campaign, and returns when its key exists.
async fn stand(t: &Case, client: &Client, value: &'static str) -> Waiter<Leadership> {
    let election = client.election("e");
    t.stands(async move { election.campaign(value).await }).await
}

async fn leads(client: &Client, value: &'static str) -> Leadership {
    within(SOON, "the candidate leads", client.election("e").campaign(value))
        .await
        .expect("elected")
}

async fn next(observe: &mut Observe) -> Leader {
    within(SOON, "a leader is observed", observe.next()).await.expect("the client is open")
}

/// Waits until a watched queue shows the leader's value.
async fn shows(queue: &mut QueueWatch, value: &str) {
    let shown =
        async { while queue.next().await.expect("the client is open")[0].owner() != value {} };
    within(SOON, "the queue shows the value", shown).await;
}

/// Fails if a leader is observed within `time`.
async fn nothing_new(observe: &mut Observe, time: Duration) {
    let seen = tokio::time::timeout(time, observe.next()).await;
    assert!(seen.is_err(), "observed {seen:?}");
}

pub(crate) async fn candidates_lead_one_at_a_time_and_in_order(t: &Case) {
    let clients = t.clients::<3>().await;
    let mut leader = leads(&clients[0], "0").await;
    let mut waiting = vec![stand(t, &clients[1], "1").await, stand(t, &clients[2], "2").await];
    assert!(clients[1].election("e").try_campaign("3").await.expect("a reply").is_none());
    let timed_out =
        clients[1].election("e").campaign_timeout("4", Duration::from_millis(100)).await;
    assert!(timed_out.expect("a reply").is_none());
    let mut token = leader.fencing_token();
    while !waiting.is_empty() {
        throughout(Duration::from_millis(100), "one leads", async || {
            waiting.iter().all(Waiter::waits)
        })
        .await;
        assert!(leader.is_valid());
        leader = handover(leader, waiting.remove(0)).await;
        assert!(leader.fencing_token() > token);
        token = leader.fencing_token();
    }
    leader.resign().await.expect("resigned");
    let again = clients[0]
        .election("e")
        .try_campaign("5")
        .await
        .expect("a reply")
        .expect("no other leader");
    // A dropped leadership also resigns.
    drop(again);
    t.queue_of(0).await;
}

pub(crate) async fn leader_is_returned_with_value_and_token(t: &Case) {
    let [client, other] = t.clients().await;
    assert_eq!(other.election("e").leader().await.expect("a reply"), None);
    let value = b"bytes \0\n\xff of any kind";
    let leadership = client.election("e").campaign(value).await.expect("elected");
    let second = stand(t, &other, "second").await;
    let leader = other.election("e").leader().await.expect("a reply").expect("there is one");
    assert_eq!((leader.value(), leader.value_str()), (&value[..], None));
    assert_eq!(
        (leader.fencing_token(), leader.key()),
        (leadership.fencing_token(), leadership.key())
    );
    let leadership = handover(leadership, second).await;
    let leader = client.election("e").leader().await.expect("a reply").expect("there is one");
    assert_eq!(
        (leader.value_str(), leader.fencing_token()),
        (Some("second"), leadership.fencing_token())
    );
    leadership.resign().await.expect("resigned");
    assert_eq!(client.election("e").leader().await.expect("a reply"), None);
}

/// Other entries contain the client's owner and a time, which this value resembles.
pub(crate) async fn a_candidates_value_is_returned_unchanged(t: &Case) {
    let [client, other] = t.clients().await;
    let value = "10.0.0.7:8080\n17";
    let leadership = leads(&client, value).await;
    let guard = client.mutex("m").lock().await.expect("granted");
    for reader in [&client, &other] {
        let leader = reader.election("e").leader().await.expect("a reply").expect("there is one");
        assert_eq!(leader.value_str(), Some(value));
        let queue = reader.election("e").queue().await.expect("a reply");
        assert_eq!(queue.iter().map(QueueEntry::owner).collect::<Vec<_>>(), [value]);
        let holder = reader.mutex("m").holder().await.expect("a reply").expect("there is one");
        assert_eq!(holder.owner(), client.owner());
    }
    guard.unlock().await.expect("released");
    leadership.resign().await.expect("resigned");
}

pub(crate) async fn a_proclaimed_value_is_seen(t: &Case) {
    let [client, other] = t.clients().await;
    let leadership = leads(&client, "0").await;
    let waiting = stand(t, &other, "waits").await;
    let mut observe = other.election("e").observe().expect("a good name");
    let mut queue = other.election("e").watch_queue().expect("a good name");
    assert_eq!(next(&mut observe).await.value_str(), Some("0"));
    shows(&mut queue, "0").await;
    for value in ["1", "", "3"] {
        leadership.proclaim(value).await.expect("proclaimed");
        let leader = other.election("e").leader().await.expect("a reply").expect("there is one");
        assert_eq!(
            (leader.value_str(), leader.fencing_token()),
            (Some(value), leadership.fencing_token())
        );
        assert_eq!(next(&mut observe).await, leader);
        shows(&mut queue, value).await;
    }
    assert!(leadership.is_valid() && waiting.waits(), "a proclaim elects no other leader");
    // Of two concurrent proclaims, both are written, one after the other.
    let (one, two) = tokio::join!(leadership.proclaim("one"), leadership.proclaim("two"));
    one.and(two).expect("proclaimed");
    while next(&mut observe).await.value_str() != Some("two") {}
    nothing_new(&mut observe, Duration::from_millis(300)).await;
    release_both(leadership, waiting).await;
}

pub(crate) async fn a_dropped_proclaim_is_completed_or_never_begun(t: &Case) {
    let client = t.client().await;
    let leadership = leads(&client, "0").await;
    for polls in 1..4 {
        let value = format!("after {polls}");
        let proclaiming = leadership.proclaim(&value);
        let mut proclaiming =
            std::pin::pin!(tokio::time::timeout(Duration::from_micros(polls * polls), proclaiming));
        let _ = proclaiming.as_mut().await;
    }
    leadership.proclaim("last").await.expect("proclaimed");
    throughout(Duration::from_millis(300), "no earlier value follows", async || {
        let leader = client.election("e").leader().await.expect("a reply");
        leader.is_some_and(|leader| leader.value() == b"last")
    })
    .await;
    leadership.resign().await.expect("resigned");
}

pub(crate) async fn a_proclaim_is_never_ok_without_a_store(t: &Case) {
    let link = t.link().await;
    let client = t.hasty_client_by(&*link).await;
    let leadership = leads(&client, "0").await;
    link.set_reachable(false);
    let error =
        within(SOON, "the call gives up", leadership.proclaim("1")).await.expect_err("no reply");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.is_retryable() && leadership.is_valid());
    // An outage shorter than the request timeout is not reported.
    let (proclaimed, ()) = tokio::join!(leadership.proclaim("1"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        link.set_reachable(true);
    });
    proclaimed.expect("proclaimed");
    let leader = client.election("e").leader().await.expect("a reply").expect("there is one");
    assert_eq!(leader.value_str(), Some("1"));
    leadership.resign().await.expect("resigned");
}

pub(crate) async fn observers_see_the_present_leader_first(t: &Case) {
    let [client, other] = t.clients().await;
    let mut early = other.election("e").observe().expect("a good name");
    nothing_new(&mut early, Duration::from_millis(200)).await;
    let leadership = leads(&client, "first").await;
    let mut late = other.election("e").observe().expect("a good name");
    for observe in [&mut early, &mut late] {
        let leader = next(observe).await;
        assert_eq!(
            (leader.value_str(), leader.fencing_token()),
            (Some("first"), leadership.fencing_token())
        );
    }
    // Candidates that join or leave are not reported.
    drop(stand(t, &other, "second").await);
    t.queue_of(1).await;
    nothing_new(&mut early, Duration::from_millis(300)).await;
    leadership.resign().await.expect("resigned");
    nothing_new(&mut late, Duration::from_millis(300)).await;
}

pub(crate) async fn observers_never_return_an_earlier_leader(t: &Case) {
    let clients = t.clients::<3>().await;
    let election = clients[2].election("e");
    let mut observe = election.observe().expect("a good name");
    let watching = tokio::spawn(async move {
        let mut seen: Vec<(FencingToken, String)> = Vec::new();
        while seen.last().is_none_or(|(_, value)| value != "last") {
            let leader = next(&mut observe).await;
            seen.push((leader.fencing_token(), leader.value_str().expect("text").to_owned()));
        }
        seen
    });
    let values = ["0", "1", "2", "3", "4", "last"];
    let mut tokens = Vec::new();
    let mut leader = leads(&clients[0], values[0]).await;
    for (n, value) in values.iter().enumerate().skip(1) {
        let next = stand(t, &clients[n % 2], value).await;
        tokens.push(leader.fencing_token());
        leader = handover(leader, next).await;
    }
    tokens.push(leader.fencing_token());
    let seen = watching.await.expect("no panic");
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "{seen:?}");
    for (token, value) in &seen {
        let n = values.iter().position(|known| known == value).expect("a known value");
        assert_eq!(tokens[n], *token);
    }
    leader.resign().await.expect("resigned");
}

pub(crate) async fn observers_outlive_their_sessions(t: &Case<dyn Sessions>) {
    let [client, other] = t.clients().await;
    let mut observe = other.election("e").observe().expect("a good name");
    let leadership = leads(&client, "before").await;
    assert_eq!(next(&mut observe).await.value_str(), Some("before"));
    for (round, value) in ["1", "2", "3"].into_iter().enumerate() {
        // Its key belongs to the observer's session.
        let anchor = other.mutex("anchor").lock().await.expect("granted");
        t.store.end_session_of(anchor.key()).await;
        if round % 2 == 0 {
            within(SOON, "the session has ended", anchor.lost()).await;
        }
        leadership.proclaim(value).await.expect("proclaimed");
        assert_eq!(next(&mut observe).await.value_str(), Some(value));
        drop(anchor);
    }
    leadership.resign().await.expect("resigned");
    let leadership = leads(&client, "after").await;
    assert_eq!(next(&mut observe).await.value_str(), Some("after"));
    leadership.resign().await.expect("resigned");
    other.close().await.expect("closed");
    assert_eq!(within(SOON, "the stream ends", observe.next()).await, None);
    assert_eq!(observe.next().await, None);
}

pub(crate) async fn observers_outlive_outages(t: &Case) {
    let link = t.link().await;
    let observer = t.hasty_client_by(&*link).await;
    let client = t.client().await;
    let mut observe = observer.election("e").observe().expect("a good name");
    let leadership = leads(&client, "before").await;
    assert_eq!(next(&mut observe).await.value_str(), Some("before"));
    link.set_reachable(false);
    let change = tokio::spawn(async move {
        leadership.resign().await.expect("resigned");
        leads(&client, "after").await
    });
    nothing_new(&mut observe, Duration::from_secs(1)).await;
    link.set_reachable(true);
    assert_eq!(next(&mut observe).await.value_str(), Some("after"));
    change.await.expect("no panic").resign().await.expect("resigned");
}

pub(crate) async fn a_dropped_campaign_leaves_nothing(t: &Case) {
    let [client, other] = t.clients().await;
    let leadership = leads(&client, "leads").await;
    for _ in 0..3 {
        drop(stand(t, &other, "gives up").await);
        t.queue_of(1).await;
    }
    for micros in [1, 50, 200, 1_000] {
        let election = other.election("e");
        let hasty = election.campaign_timeout("hasty", Duration::from_micros(micros));
        assert!(hasty.await.expect("a reply").is_none());
        let hasty = tokio::time::timeout(Duration::from_micros(micros), election.campaign("hasty"));
        assert!(hasty.await.is_err(), "another candidate leads");
    }
    t.queue_of(1).await;
    leadership.resign().await.expect("resigned");
    t.queue_of(0).await;
}

pub(crate) async fn a_leader_that_lost_its_session_is_notified(t: &Case<dyn Sessions>) {
    let [client, other] = t.clients().await;
    let leadership = leads(&client, "0").await;
    let waiting = stand(t, &other, "1").await;
    t.store.end_session_of(leadership.key()).await;
    let lost = leadership.run(std::future::pending::<()>());
    within(SOON, "the leader is notified", lost).await.expect_err("the lock was lost");
    assert!(!leadership.is_valid());
    let error = leadership.proclaim("late").await.expect_err("the lock was lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    let successor = waiting.granted().await;
    let leader = client.election("e").leader().await.expect("a reply").expect("there is one");
    assert_eq!(
        (leader.value_str(), leader.fencing_token()),
        (Some("1"), successor.fencing_token())
    );
    let error = leadership.resign().await.expect_err("the lock was lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    successor.resign().await.expect("resigned");
}

pub(crate) async fn a_proclaim_without_its_key_is_refused(t: &Case) {
    let [client, other] = t.clients().await;
    let leadership = leads(&client, "0").await;
    let waiting = stand(t, &other, "1").await;
    t.store.delete_key(leadership.key()).await;
    let error = leadership.proclaim("late").await.expect_err("the key was deleted");
    assert!(matches!(error, Error::Lost { reason: LostReason::Evicted, .. }), "{error:?}");
    assert!(!leadership.is_valid());
    assert_eq!(
        within(SOON, "the leader is notified", leadership.lost()).await,
        LostReason::Evicted
    );
    let successor = waiting.granted().await;
    let leader = client.election("e").leader().await.expect("a reply").expect("there is one");
    assert_eq!(leader.value_str(), Some("1"));
    successor.resign().await.expect("resigned");
}

pub(crate) async fn elections_and_mutexes_of_one_name_are_independent(t: &Case) {
    let client = t.client().await;
    let guard = client.mutex("e").lock().await.expect("granted");
    assert_eq!(client.election("e").leader().await.expect("a reply"), None);
    let leadership = leads(&client, "leads").await;
    assert_ne!(guard.key(), leadership.key());
    assert_eq!(client.mutex("e").queue().await.expect("a reply").len(), 1);
    guard.unlock().await.expect("released");
    assert!(leadership.is_valid());
    leadership.resign().await.expect("resigned");
}

pub(crate) async fn bad_elections_are_refused_before_anything_is_sent(t: &Case) {
    let client = t.client().await;
    let long = vec![b'x'; (16 << 10) + 1];
    let error = client.election("e").campaign(&long).await.expect_err("too long");
    assert!(matches!(error, Error::InvalidArgument { argument: "value", .. }), "{error:?}");
    let leadership = client.election("e").campaign(&long[1..]).await.expect("just not too long");
    let error = leadership.proclaim(&long).await.expect_err("too long");
    assert!(matches!(error, Error::InvalidArgument { argument: "value", .. }), "{error:?}");
    eventually(SOON, "the longest value is returned", async || {
        let leader = client.election("e").leader().await.expect("a reply");
        leader.is_some_and(|leader| leader.value().len() == 16 << 10)
    })
    .await;
    leadership.resign().await.expect("resigned");
    let unnamed = client.election("");
    let errors = [
        unnamed.campaign("x").await.expect_err("no name"),
        unnamed.leader().await.expect_err("no name"),
        unnamed.observe().expect_err("no name"),
    ];
    for error in errors {
        assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error:?}");
    }
}

/// A leader that proclaims often does not delay its successor's notification.
pub(crate) async fn a_successor_of_a_busy_leader_leads_at_once(t: &Case) {
    let clients = t.clients::<2>().await;
    let mut best = Duration::MAX;
    for round in 0..4 {
        let (one, two) =
            (clients[round % 2].election("busy"), clients[(round + 1) % 2].election("busy"));
        let leadership = one.campaign("0").await.expect("granted");
        let successor = t.stands(async move { two.campaign("next").await }).await;
        for value in 1..=12 {
            leadership.proclaim(value.to_string()).await.expect("proclaimed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let resigned = Instant::now();
        let next = handover(leadership, successor).await;
        best = best.min(resigned.elapsed());
        next.resign().await.expect("released");
    }
    println!("at best after {best:?}");
    assert!(best < Duration::from_millis(200), "the successor led after {best:?} at best");
}

/// The application of a leader.
struct App(u64);

impl App {
    async fn tick(&self, lead: &LockGuard) -> u64 {
        tokio::task::yield_now().await;
        assert!(lead.is_valid());
        self.0
    }

    /// A service's own loop.
    async fn lead(self: Arc<Self>, client: Client) -> Result<Option<u64>> {
        client
            .election("run")
            .run("candidate", pending(), async |lead| self.tick(&lead).await)
            .await
    }

    async fn work(self: Arc<Self>, client: Client) -> Result<u64> {
        client.mutex("run").run(async |guard| self.tick(guard).await).await
    }
}

/// The work of a leader or of a mutex may be spawned with anything it borrows, clones or owns. That
/// this compiles is half of the test.
pub(crate) async fn spawned_work_may_borrow_clone_or_own(t: &Case) {
    let client = t.client().await;
    let app = Arc::new(App(7));

    let (own, shared) = (client.clone(), Arc::clone(&app));
    let by_reference = tokio::spawn(async move {
        let app = &*shared;
        own.election("run").run("candidate", pending(), async |lead| app.tick(&lead).await).await
    });
    let (own, shared) = (client.clone(), Arc::clone(&app));
    let by_arc = tokio::spawn(async move {
        own.election("run").run("candidate", pending(), async |lead| shared.tick(&lead).await).await
    });
    let (own, shared) = (client.clone(), Arc::clone(&app));
    let moved = tokio::spawn(async move {
        let work = async move |lead: LeadershipHandle| {
            let app = Arc::clone(&shared);
            app.tick(&lead).await
        };
        own.election("run").run("candidate", pending(), work).await
    });
    let (own, shared) = (client.clone(), Arc::clone(&app));
    let handed_on = tokio::spawn(async move {
        let work = async |lead: LeadershipHandle| {
            let app = Arc::clone(&shared);
            tokio::spawn(async move { app.tick(&lead).await }).await.expect("no panic")
        };
        own.election("run").run("candidate", pending(), work).await
    });
    let method = tokio::spawn(Arc::clone(&app).lead(client.clone()));
    for leading in [by_reference, by_arc, moved, handed_on, method] {
        let done = within(SOON, "the candidate leads", leading).await.expect("no panic");
        assert_eq!(done.expect("the leader led"), Some(7));
    }

    let (own, shared) = (client.clone(), Arc::clone(&app));
    let locked = tokio::spawn(async move {
        let app = &*shared;
        own.mutex("run").run(async |guard| app.tick(guard).await).await
    });
    let method = tokio::spawn(Arc::clone(&app).work(client.clone()));
    for working in [locked, method] {
        let done = within(SOON, "the work is done", working).await.expect("no panic");
        assert_eq!(done.expect("the lock was held"), 7);
    }
}

/// A leader whose run is cancelled has a successor at once. No client sees it lead afterwards.
pub(crate) async fn a_run_that_is_cancelled_has_resigned(t: &Case) {
    let [client, other] = t.clients().await;
    for round in 0..8 {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (leads, led) = tokio::sync::oneshot::channel();
        let (election, others) = (client.election("cancelled"), other.election("cancelled"));
        let leads = Arc::new(std::sync::Mutex::new(Some(leads)));
        let running = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let work = async |_| {
                let leads = leads.lock().expect("no panic").take().expect("once");
                leads.send(()).expect("the test waits");
                pending::<()>().await
            };
            let done = election.run("candidate", stopped, work).await;
            // In the same task, which leaves least time to a resignation in the background.
            (done, others.leader().await)
        });
        within(SOON, "the candidate leads", led).await.expect("the candidate leads");
        drop(stop);
        let (done, leader) = within(SOON, "the run stops", running).await.expect("no panic");
        assert_eq!(done.expect("the run was cancelled"), None);
        let leader = leader.expect("a reply");
        assert!(leader.is_none(), "round {round}: {leader:?}");
    }
}
