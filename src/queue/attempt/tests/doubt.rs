//! Keys that a late request may create while the lock is held.

use super::*;
use crate::lost::LostReason;

/// A late join request may create a key with the label that the holder had before. The session
/// lists its keys soon after the change of the label, long before the next recheck.
#[tokio::test(start_paused = true)]
async fn relabelled_holder_in_doubt_lists_keys_before_the_recheck() {
    for (joins, soon) in [(&[][..], 0), (&[Unknown], 3)] {
        let store = FakeStore::new();
        store.change(|facts| facts.joins_late = true);
        script(&store.enqueue, joins, || Ok(joined(Standing::First)));
        script(&store.own_keys, &[], || Ok(Vec::new()));
        script(&store.standing, &[], || Ok(Standing::First));
        store.relabel.then(0, || Ok(Some(Entry::new("/ns/name/2", 2))));
        let mut entered = join(attempt(&store).await, None).await.unwrap().unwrap();
        entered.attempt.grant().unwrap();
        let lists = store.asked("own_keys").len();
        let held = entered.attempt.relabel("r", b"").await.unwrap();
        sleep(Duration::from_secs(14)).await;
        assert_eq!(store.asked("own_keys").len() - lists, soon, "{joins:?}");
        drop(held);
    }
}

/// The key was deleted and put again under its name, and both events were lost: the name alone
/// proves nothing, and the standing of the key decides.
#[tokio::test(start_paused = true)]
async fn holder_whose_key_has_a_new_revision_is_lost_without_an_event() {
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
    script(&store.own_entry, &[], move || Ok(Some(Entry::new(Arc::clone(&key), 5))));
    script(&store.watch, &[], || Ok(Some(Box::pin(std::future::pending()))));
    script(&store.standing, &[], || Ok(Standing::Evicted));
    let mut entered = join(attempt, None).await.unwrap().unwrap();
    entered.attempt.grant().unwrap();
    let own = Arc::clone(entered.attempt.own_key().unwrap());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(own.lost_reason(), Some(LostReason::Evicted));
}
