//! What an attempt asks of the store until nothing is left of it, by a stopped clock.

use std::sync::atomic::Ordering;

use super::*;
use crate::{
    backend::{Entry, Left, Moment, error::Result},
    session::double::Double,
};

const PATIENCE: Duration = Duration::from_millis(100);

fn queue() -> Queue {
    Queue::new("/ns", "name").unwrap()
}

fn joined(standing: Standing) -> Joined {
    let entry = Entry::new("/ns/name/1", 1);
    Joined::Queued { entry, standing, at: Moment(1), alive: None, alone: true }
}

fn left(existed: bool) -> Left {
    Left { existed, successor: false, at: Moment(2) }
}

/// How a request fails.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Unavailable,
    Unknown,
    Denied,
    Gone,
}

use Fails::{Denied, Gone, Unavailable, Unknown};

impl Fails {
    fn error(self) -> StoreError {
        match self {
            Unavailable => StoreError::Unavailable("no answer".into()),
            Unknown => StoreError::Unknown("no answer".into()),
            Denied => StoreError::Denied("no".into()),
            Gone => StoreError::SessionGone(LostReason::SessionExpired),
        }
    }
}

/// Those fail first, in turn; then that is answered, for ever.
fn script<T: 'static>(
    answers: &crate::session::double::Answers<T>,
    fails: &[Fails],
    then: impl FnMut() -> Result<T> + Send + 'static,
) {
    for &fails in fails {
        answers.then(0, move || Err(fails.error()));
    }
    answers.then(0, then);
}

async fn attempt(store: &Arc<Double>) -> Attempt {
    let session = store.session().await;
    Attempt::in_session(&session, &queue()).unwrap()
}

/// Joins, and keeps the interest alive meanwhile.
async fn join(attempt: Attempt, give_up: Option<Instant>) -> Result<Option<Entered>> {
    let (interest, _interested) = oneshot::channel();
    attempt.join(Join::Always, give_up, interest).await
}

/// After how many milliseconds from the first each of these was asked.
fn since_first(asked: &[u64]) -> Vec<u64> {
    asked.iter().map(|at| at - asked[0]).collect()
}

/// A request that may be applied yet, or may have been, is looked for three times, and one's
/// ticket is used again only if there was one of each kind.
#[tokio::test(start_paused = true)]
async fn what_was_in_doubt_is_looked_for_again() {
    for (joins, leaves, looks, reused) in [
        (&[][..], &[][..], &[0][..], true),
        (&[Unavailable], &[], &[0], false),
        (&[Unknown], &[], &[0, 1000, 5000, 13_000], false),
        (&[Unknown, Unavailable], &[], &[0, 1000, 5000, 13_000], false),
    ] {
        let store = Double::new();
        store.keeps_old_names.store(true, Ordering::Relaxed);
        script(&store.enqueue, joins, || Ok(joined(Standing::First)));
        script(&store.leave, leaves, || Ok(left(true)));
        let attempt = attempt(&store).await;
        let (session, ticket) = (Arc::clone(attempt.session()), attempt.ticket());
        let mut entered = join(attempt, None).await.unwrap().unwrap();
        assert_eq!(store.asked("enqueue").len(), joins.len() + 1);
        entered.attempt.grant().unwrap();
        let release = entered.attempt.release_within(PATIENCE).await;
        assert!(matches!(release, Release::Released), "{release:?}");
        let next = session.take_on(&queue()).unwrap();
        assert_eq!(next == ticket, reused, "{joins:?}");
        sleep(Duration::from_secs(30)).await;
        assert_eq!(since_first(&store.asked("leave")), looks, "{joins:?}");
    }
}

/// Tickets are used again where names are kept, and only those of which nothing can come any more.
#[tokio::test(start_paused = true)]
async fn tickets_are_used_again_where_that_pays() {
    for (keeps, leaves, reused) in
        [(true, &[][..], true), (false, &[], false), (true, &[Unavailable], false)]
    {
        let store = Double::new();
        store.keeps_old_names.store(keeps, Ordering::Relaxed);
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        script(&store.leave, leaves, || Ok(left(true)));
        let attempt = attempt(&store).await;
        let (session, ticket) = (Arc::clone(attempt.session()), attempt.ticket());
        let entered = join(attempt, None).await.unwrap().unwrap();
        entered.attempt.release_within(PATIENCE).await;
        let next = session.take_on(&queue()).unwrap();
        assert_eq!(next == ticket, reused, "{keeps} {leaves:?}");
    }
}

/// What cannot have been written need not be deleted.
#[tokio::test(start_paused = true)]
async fn only_what_may_be_there_is_deleted() {
    for (fails, leaves) in [
        (&[Denied][..], 0),
        (&[Unavailable, Denied], 0),
        (&[Unknown, Denied], 4),
        (&[Unknown, Unavailable, Denied], 4),
        (&[Gone], 0),
    ] {
        let store = Double::new();
        script(&store.enqueue, fails, || Ok(joined(Standing::First)));
        script(&store.leave, &[], || Ok(left(false)));
        store.close.then(0, || Ok(()));
        let attempt = attempt(&store).await;
        let session = Arc::clone(attempt.session());
        assert!(join(attempt, None).await.is_err(), "{fails:?}");
        assert_eq!(store.asked("enqueue").len(), fails.len());
        sleep(Duration::from_secs(30)).await;
        assert_eq!(store.asked("leave").len(), leaves, "{fails:?}");
        assert!(!session.deadline.vitals().busy, "{fails:?}: it counts for nothing any more");
    }
    // Nor what found somebody there.
    let store = Double::new();
    store.enqueue.then(0, || Ok(Joined::Occupied));
    let attempt = attempt(&store).await;
    assert!(join(attempt, None).await.unwrap().is_none());
    sleep(Duration::from_secs(30)).await;
    assert!(store.asked("leave").is_empty());
}

/// Joining goes on for as long as its time lasts and somebody is interested.
#[tokio::test(start_paused = true)]
async fn joining_ends_with_its_time_and_its_caller() {
    let store = Double::new();
    script(&store.enqueue, &[], || Err(Unavailable.error()));
    let began = Instant::now();
    let give_up = Some(began + Duration::from_secs(3));
    assert!(join(attempt(&store).await, give_up).await.is_err());
    let took = began.elapsed();
    assert!((3000..4001).contains(&took.as_millis()), "{took:?}");
    // A caller that goes.
    let (interest, interested) = oneshot::channel();
    let joining = tokio::spawn(attempt(&store).await.join(Join::Always, None, interest));
    sleep(Duration::from_secs(5)).await;
    assert!(!joining.is_finished());
    drop(interested);
    sleep(Duration::from_millis(1001)).await;
    assert!(joining.is_finished());
    // And one that has gone before.
    let asked = store.asked("enqueue").len();
    let (interest, interested) = oneshot::channel();
    drop(interested);
    assert!(attempt(&store).await.join(Join::Always, None, interest).await.is_err());
    assert_eq!(store.asked("enqueue").len(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_release_says_what_it_knows() {
    for (fails, existed, told) in [
        (&[][..], true, "Released"),
        (&[], false, "Absent"),
        (&[Unavailable], true, "Released"),
        (&[Unavailable], false, "Absent"),
        // One of the requests may have deleted it.
        (&[Unknown], false, "Released"),
        (&[Gone], true, "SessionOver(SessionExpired)"),
        (&[Denied], true, "Refused(\"no\")"),
    ] {
        let store = Double::new();
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        script(&store.leave, fails, move || Ok(left(existed)));
        store.close.then(0, || Ok(()));
        let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
        entered.attempt.grant().unwrap();
        let release = entered.attempt.release_within(PATIENCE).await;
        assert_eq!(format!("{release:?}"), told, "{fails:?} {existed}");
    }
    // Without an answer it goes on behind the caller's back, until it has one.
    let store = Double::new();
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

/// One that was dropped is deleted like one that was released, and a holder is known to have gone.
#[tokio::test(start_paused = true)]
async fn what_is_dropped_is_deleted() {
    for grant in [false, true] {
        let store = Double::new();
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        store.leave.then(50, || Ok(left(true)));
        let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
        let own = Arc::clone(entered.attempt.own_key().unwrap());
        if grant {
            entered.attempt.grant().unwrap();
        }
        let session = Arc::clone(entered.attempt.session());
        assert_eq!(own.is_held(), grant);
        drop(entered);
        assert!(!own.is_held());
        session.deadline.unheld().await;
        assert!(session.deadline.vitals().busy, "its key is there");
        sleep(Duration::from_millis(51)).await;
        assert!(!session.deadline.vitals().busy);
        assert_eq!(store.asked("leave").len(), 1);
    }
}

/// A holder is looked after, unless it is only a way to something else.
#[tokio::test(start_paused = true)]
async fn holders_are_looked_after() {
    for passing in [false, true] {
        let store = Double::new();
        script(&store.enqueue, &[], || Ok(joined(Standing::First)));
        let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
        entered.attempt.passing = passing;
        entered.attempt.grant().unwrap();
        sleep(Duration::from_secs(1)).await;
        let watched = store.asked("watch /ns/name/1").len();
        assert_eq!(watched, usize::from(!passing));
    }
}

/// Several at once: all of them or none, and what may be there is deleted.
#[tokio::test(start_paused = true)]
async fn several_are_joined_in_one_request() {
    let first = || joined(Standing::First);
    for (case, (answer, entered, leaves)) in [
        (Ok(Some(vec![first(), first()])), Some(2), 0),
        (Ok(None), None, 0),
        // No store says that; should one, whatever it put is deleted.
        (Ok(Some(vec![first(), Joined::Occupied])), None, 1 + 4),
        (Err(Unavailable), None, 0),
        (Err(Denied), None, 0),
        // Either of both may be there, now or later.
        (Err(Unknown), None, 2 * 4),
    ]
    .into_iter()
    .enumerate()
    {
        let store = Double::new();
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
