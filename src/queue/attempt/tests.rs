//! The requests of an attempt until none of its keys is left, on a paused clock.

use super::*;
use crate::{
    backend::{Entry, LeaveOutcome, SequencePoint, error::Result},
    session::fake_store::FakeStore,
};

mod doubt;

const PATIENCE: Duration = Duration::from_millis(100);

fn queue() -> Queue {
    Queue::new("/ns", "name").unwrap()
}

fn joined(standing: Standing) -> Joined {
    let entry = Entry::new("/ns/name/1", 1);
    Joined::Queued { entry, standing, at: SequencePoint(1), alive: None, alone: true }
}

fn left(existed: bool) -> LeaveOutcome {
    LeaveOutcome { existed, successor: false, at: SequencePoint(2) }
}

/// How a request fails.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Unavailable,
    Unknown,
    Denied,
    PartlyDenied,
    Gone,
}

use Fails::{Denied, Gone, PartlyDenied, Unavailable, Unknown};

impl Fails {
    fn error(self) -> StoreError {
        match self {
            Unavailable => StoreError::Unavailable("no answer".into()),
            Unknown => StoreError::Unknown("no answer".into()),
            Denied => StoreError::Denied("no".into()),
            PartlyDenied => StoreError::PartlyDenied("no".into()),
            Gone => StoreError::SessionGone(LostReason::SessionExpired),
        }
    }
}

/// First these failures in turn, and then always this reply.
fn script<T: 'static>(
    answers: &crate::session::fake_store::Answers<T>,
    fails: &[Fails],
    then: impl FnMut() -> Result<T> + Send + 'static,
) {
    for &fails in fails {
        answers.then(0, move || Err(fails.error()));
    }
    answers.then(0, then);
}

async fn attempt(store: &Arc<FakeStore>) -> Attempt {
    let session = store.session().await;
    Attempt::in_session(&session, &queue()).unwrap()
}

/// Joins on behalf of a caller that waits.
async fn join(attempt: Attempt, give_up: Option<Instant>) -> Result<Option<JoinOutcome>> {
    let (interest, _interested) = oneshot::channel();
    attempt.join(Join::Always, give_up, interest).await
}

/// After a request to join with an unknown outcome, the session lists its keys soon after the
/// release, and then at each recheck. A ticket is reused only if each kind of request was sent
/// once.
#[tokio::test(start_paused = true)]
async fn session_in_doubt_lists_its_keys_for_as_long_as_it_lives() {
    for (joins, doubtful) in [
        (&[][..], false),
        (&[Unavailable], false),
        (&[Unknown], true),
        (&[Unknown, Unavailable], true),
    ] {
        let store = FakeStore::new();
        store.change(|facts| facts.keeps_old_names = true);
        store.change(|facts| facts.joins_late = true);
        script(&store.enqueue, joins, || Ok(joined(Standing::First)));
        script(&store.leave, &[], || Ok(left(true)));
        script(&store.own_keys, &[], || Ok(Vec::new()));
        let attempt = attempt(&store).await;
        let (session, ticket) = (Arc::clone(&attempt.session), attempt.ticket);
        let mut entered = join(attempt, None).await.unwrap().unwrap();
        assert_eq!(store.asked("enqueue").len(), joins.len() + 1);
        entered.attempt.grant().unwrap();
        let release = entered.attempt.release_within(PATIENCE).await;
        assert!(matches!(release, Release::Released), "{release:?}");
        let next = session.take_on(&queue()).unwrap();
        assert_eq!(next == ticket, joins.is_empty(), "{joins:?}");
        sleep(Duration::from_secs(600)).await;
        assert_eq!(store.asked("leave").len(), 1, "{joins:?}");
        let released = store.asked("leave")[0];
        let looks: Vec<_> = store.asked("own_keys").iter().map(|at| at - released).collect();
        if !doubtful {
            assert!(looks.is_empty(), "{joins:?}: {looks:?}");
            continue;
        }
        for soon in [1000, 5000, 13_000] {
            assert!(looks.contains(&soon), "{joins:?}: {looks:?}");
        }
        // Every 20 to 25 s.
        assert!((26..=33).contains(&looks.len()), "{joins:?}: {looks:?}");
    }
}

/// A session on a store that names keys by tickets, and in which each search finds this.
async fn doubtful_session(store: &Arc<FakeStore>) -> Arc<Session> {
    store.change(|facts| facts.joins_late = true);
    script(&store.remove, &[], || Ok(true));
    script(&store.leave, &[], || Ok(left(false)));
    store.session().await
}

/// The network delivers the request a minute after it was sent.
#[tokio::test(start_paused = true)]
async fn join_that_lands_long_after_its_release_is_removed() {
    let store = FakeStore::new();
    script(&store.enqueue, &[Unknown], || Err(Denied.error()));
    let session = doubtful_session(&store).await;
    let attempt = Attempt::in_session(&session, &queue()).unwrap();
    let key: Arc<str> = attempt.ticket.to_string().into();
    let landed = Arc::clone(&key);
    let lands = Instant::now() + Duration::from_secs(60);
    script(&store.own_keys, &[], move || {
        let there = Instant::now() >= lands;
        Ok(if there { vec![Arc::clone(&landed)] } else { Vec::new() })
    });
    let landed = Arc::clone(&key);
    script(&store.own_entry, &[], move || Ok(Some(Entry::new(Arc::clone(&landed), 9))));
    assert!(join(attempt, None).await.is_err());
    sleep(Duration::from_secs(59)).await;
    assert!(store.asked(&format!("own entry {key}")).is_empty());
    sleep(Duration::from_secs(27)).await;
    assert!(!store.asked(&format!("remove {key} of 9")).is_empty(), "by its revision");
    assert_eq!(store.asked("leave").len(), 1);
}

/// A key that a request in flight may have written belongs to an attempt, whenever the attempt
/// began. A key that the store showed before may belong to an earlier attempt with the same ticket.
#[tokio::test(start_paused = true)]
async fn key_of_a_join_under_way_is_not_removed() {
    for begins_during_the_read in [false, true] {
        let store = FakeStore::new();
        store.change(|facts| facts.keeps_old_names = true);
        // The reply to the request is in flight.
        store.enqueue.then(1_000_000, || Ok(joined(Standing::First)));
        let session = doubtful_session(&store).await;
        let ticket = Ticket::random();
        let key: Arc<str> = ticket.to_string().into();
        let listed = Arc::clone(&key);
        script(&store.own_keys, &[], move || Ok(vec![Arc::clone(&listed)]));
        let found = Entry::new(Arc::clone(&key), 9);
        store.own_entry.then(500, move || Ok(Some(found.clone())));
        session.reuse(ticket);
        let begin = || Attempt::in_session(&session, &queue()).unwrap();
        let attempt = (!begins_during_the_read).then(begin);
        session.claims.doubt();
        sleep(Duration::from_millis(1250)).await;
        let reads = store.asked(&format!("own entry {key}")).len();
        assert_eq!(reads, usize::from(begins_during_the_read));
        let attempt = attempt.unwrap_or_else(begin);
        assert_eq!(attempt.ticket, ticket);
        let joining = tokio::spawn(join(attempt, None));
        sleep(Duration::from_secs(100)).await;
        assert!(store.asked(&format!("remove {key} of 9")).is_empty());
        assert!(!joining.is_finished());
    }
}

/// An operator has deleted the key of a waiter or holder, and a late request has written it again.
/// The key blocks the queue, and nothing else would delete it.
#[tokio::test(start_paused = true)]
async fn recreated_key_is_not_the_held_key() {
    for (revision, removed) in [(1, false), (5, true)] {
        let store = FakeStore::new();
        let session = doubtful_session(&store).await;
        let attempt = Attempt::in_session(&session, &queue()).unwrap();
        let key: Arc<str> = attempt.ticket.to_string().into();
        let own = Entry::new(Arc::clone(&key), 1);
        script(&store.enqueue, &[Unknown], move || {
            let (entry, standing) = (own.clone(), Standing::First);
            Ok(Joined::Queued { entry, standing, at: SequencePoint(1), alive: None, alone: true })
        });
        let listed = Arc::clone(&key);
        script(&store.own_keys, &[], move || Ok(vec![Arc::clone(&listed)]));
        let found = Entry::new(Arc::clone(&key), revision);
        script(&store.own_entry, &[], move || Ok(Some(found.clone())));
        script(&store.standing, &[], || Ok(Standing::First));
        let mut entered = join(attempt, None).await.unwrap().unwrap();
        entered.attempt.grant().unwrap();
        sleep(Duration::from_secs(30)).await;
        assert!(!store.asked(&format!("own entry {key}")).is_empty());
        let asked = store.asked(&format!("remove {key} of {revision}"));
        assert_eq!(!asked.is_empty(), removed, "created at {revision}");
    }
}

/// Tickets are reused on stores that keep names, but only if no late request can use them.
#[tokio::test(start_paused = true)]
async fn tickets_are_reused_if_useful() {
    for (keeps, leaves, reused) in
        [(true, &[][..], true), (false, &[], false), (true, &[Unavailable], false)]
    {
        let store = FakeStore::new();
        store.change(|facts| facts.keeps_old_names = keeps);
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        script(&store.leave, leaves, || Ok(left(true)));
        let attempt = attempt(&store).await;
        let (session, ticket) = (Arc::clone(&attempt.session), attempt.ticket);
        let entered = join(attempt, None).await.unwrap().unwrap();
        entered.attempt.release_within(PATIENCE).await;
        let next = session.take_on(&queue()).unwrap();
        assert_eq!(next == ticket, reused, "{keeps} {leaves:?}");
    }
}

/// A key that cannot have been written is not deleted.
#[tokio::test(start_paused = true)]
async fn only_possibly_existing_keys_are_deleted() {
    for (fails, leaves) in [
        (&[Denied][..], 0),
        (&[Unavailable, Denied], 0),
        (&[Unknown, Denied], 1),
        (&[PartlyDenied], 1),
        (&[Unknown, Unavailable, Denied], 1),
        (&[Gone], 0),
    ] {
        let store = FakeStore::new();
        script(&store.enqueue, fails, || Ok(joined(Standing::First)));
        script(&store.leave, &[], || Ok(left(false)));
        store.close.then(0, || Ok(()));
        let attempt = attempt(&store).await;
        let session = Arc::clone(&attempt.session);
        assert!(join(attempt, None).await.is_err(), "{fails:?}");
        assert_eq!(store.asked("enqueue").len(), fails.len());
        sleep(Duration::from_secs(30)).await;
        assert_eq!(store.asked("leave").len(), leaves, "{fails:?}");
        assert!(!session.deadline.vitals().busy, "{fails:?}: it counts for nothing any more");
    }
    // Nor is the key of an attempt that found the lock occupied.
    let store = FakeStore::new();
    store.enqueue.then(0, || Ok(Joined::Occupied));
    let attempt = attempt(&store).await;
    assert!(join(attempt, None).await.unwrap().is_none());
    sleep(Duration::from_secs(30)).await;
    assert!(store.asked("leave").is_empty());
}

/// Joining continues until its time is over or the caller leaves.
#[tokio::test(start_paused = true)]
async fn joining_ends_with_its_time_and_its_caller() {
    let store = FakeStore::new();
    script(&store.enqueue, &[], || Err(Unavailable.error()));
    let began = Instant::now();
    let give_up = Some(began + Duration::from_secs(3));
    assert!(join(attempt(&store).await, give_up).await.is_err());
    let took = began.elapsed();
    assert!((3000..4001).contains(&took.as_millis()), "{took:?}");
    // A caller that leaves.
    let (interest, interested) = oneshot::channel();
    let joining = tokio::spawn(attempt(&store).await.join(Join::Always, None, interest));
    sleep(Duration::from_secs(5)).await;
    assert!(!joining.is_finished());
    drop(interested);
    sleep(Duration::from_millis(1001)).await;
    assert!(joining.is_finished());
    // A caller that had left before.
    let asked = store.asked("enqueue").len();
    let (interest, interested) = oneshot::channel();
    drop(interested);
    assert!(attempt(&store).await.join(Join::Always, None, interest).await.is_err());
    assert_eq!(store.asked("enqueue").len(), asked);
}

#[tokio::test(start_paused = true)]
async fn release_outcome_matches_store_replies() {
    for (fails, existed, expected) in [
        (&[][..], true, "Released"),
        (&[], false, "Absent"),
        (&[Unavailable], true, "Released"),
        (&[Unavailable], false, "Absent"),
        // One of the requests may have deleted it.
        (&[Unknown], false, "Released"),
        (&[Gone], true, "SessionOver(SessionExpired)"),
        (&[Denied], true, "Refused(\"no\")"),
    ] {
        let store = FakeStore::new();
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        script(&store.leave, fails, move || Ok(left(existed)));
        store.close.then(0, || Ok(()));
        let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
        entered.attempt.grant().unwrap();
        let release = entered.attempt.release_within(PATIENCE).await;
        assert_eq!(format!("{release:?}"), expected, "{fails:?} {existed}");
    }
    // Without a reply, the release continues in the background until the store replies.
    let store = FakeStore::new();
    script(&store.enqueue, &[], || Ok(joined(Standing::First)));
    store.leave.then(500, || Err(Unavailable.error()));
    store.leave.then(0, || Ok(left(true)));
    let entered = join(attempt(&store).await, None).await.unwrap().unwrap();
    let began = Instant::now();
    let release = entered.attempt.release_within(PATIENCE).await;
    assert!(matches!(release, Release::Trying(None)), "{release:?}");
    assert_eq!(began.elapsed(), PATIENCE);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store.asked("leave").len(), 2);
}

/// A dropped entry is deleted like a released one, and a holder counts as ended.
#[tokio::test(start_paused = true)]
async fn dropped_attempt_deletes_its_key() {
    for grant in [false, true] {
        let store = FakeStore::new();
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        store.leave.then(50, || Ok(left(true)));
        let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
        let own = Arc::clone(entered.attempt.own_key().unwrap());
        if grant {
            entered.attempt.grant().unwrap();
        }
        let session = Arc::clone(&entered.attempt.session);
        assert_eq!(own.is_held(), grant);
        drop(entered);
        assert!(!own.is_held());
        assert!(session.deadline.vitals().busy, "its key is there");
        let began = Instant::now();
        session.deadline.unheld().await;
        assert_eq!(began.elapsed() >= Duration::from_millis(50), grant, "a release is awaited");
        sleep(Duration::from_millis(51)).await;
        assert!(!session.deadline.vitals().busy);
        assert_eq!(store.asked("leave").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn held_keys_are_watched() {
    let store = FakeStore::new();
    script(&store.enqueue, &[], || Ok(joined(Standing::First)));
    let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
    entered.attempt.grant().unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store.asked("watch /ns/name/1").len(), 1);
}

/// Several locks at once: all of them or none, and every key that may exist is deleted.
#[tokio::test(start_paused = true)]
async fn several_are_joined_in_one_request() {
    let first = || joined(Standing::First);
    for (case, (answer, entered, leaves)) in [
        (Ok(Some(vec![first(), first()])), Some(2), 0),
        (Ok(None), None, 0),
        // No store replies this. If one did, each key that it wrote would be deleted.
        (Ok(Some(vec![first(), Joined::Occupied])), None, 1 + 1),
        (Err(Unavailable), None, 0),
        (Err(Denied), None, 0),
        // Each of the two keys may exist, now or later.
        (Err(Unknown), None, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let store = FakeStore::new();
        let (failed, mut answer) = (answer.is_err(), Some(answer));
        store.enqueue_all.then(0, move || answer.take().unwrap().map_err(Fails::error));
        script(&store.leave, &[], || Ok(left(true)));
        let session = store.session().await;
        let attempts = [(); 2].map(|()| Attempt::in_session(&session, &queue()).unwrap());
        let joined = Attempt::join_all(attempts.into()).await;
        assert_eq!(joined.is_err(), failed, "case {case}");
        let joined = joined.ok().flatten();
        assert_eq!(joined.as_ref().map(Vec::len), entered, "case {case}");
        sleep(Duration::from_secs(30)).await;
        assert_eq!(store.asked("leave").len(), leaves, "case {case}");
        assert_eq!(store.asked("enqueue_all").len(), 1);
        drop(joined);
        sleep(Duration::from_secs(1)).await;
        assert!(!session.deadline.vitals().busy, "case {case}");
    }
    assert!(Attempt::join_all(Vec::new()).await.unwrap().is_none());
}
