//! Which holder a request is for, and how long it exists, on a paused clock.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    backend::{Detail, Joined, LeaveOutcome, Listing, SequencePoint, Standing, Watch},
    primitives::viewer::LockKind,
    session::fake_store::{FakeStore, grow, pauses},
};

#[test]
fn release_request_applies_to_named_holder() {
    let holder = Entry { token: 5, ..Entry::new("/ns/a/7", 7) };
    let read = |value: &str| {
        let detail = Detail { value: value.into(), version: 0, since: None, own: false };
        let entry = Entry::new("/ns/a!ask/1", 9);
        ReleaseRequest::read(Member { entry, label: None, detail: Some(detail) }, &holder)
    };
    for (value, expected) in [
        ("/ns/a/7\n5\nme\nplease", Some(("me", "please"))),
        ("/ns/a/7\n0\nme\nplease,\nnow", Some(("me", "please,\nnow"))),
        ("/ns/a/7\n7\nme\nplease", None),
        ("/ns/a/8\n5\nme\nplease", None),
        ("/ns/a/8\n0\nme\nplease", None),
        ("/ns/a/7\nfive\nme\nplease", None),
        ("/ns/a/7\n5\nme", None),
        ("", None),
    ] {
        let request = read(value);
        let said = request.as_ref().map(|request| (request.owner(), request.reason()));
        assert_eq!(said, expected, "{value:?}");
    }
    let request = ReleaseRequest { owner: "me".into(), reason: "please".into() };
    let written = request.write(&holder);
    assert_eq!(read(str::from_utf8(&written).unwrap()), Some(request));
    let entry = Entry::new("/ns/a!ask/1", 9);
    assert!(ReleaseRequest::read(Member { entry, label: None, detail: None }, &holder).is_none());
}

fn viewer(sessions: &Sessions) -> Viewer {
    Viewer::new(sessions.clone(), LockKind::Mutex, &queue())
}

fn queue() -> Queue {
    Queue::new("/ns", "a").unwrap()
}

/// A store with a holder, which accepts requests to release.
fn store() -> Arc<FakeStore> {
    let store = FakeStore::new();
    store.list.then(0, || {
        let member = Member { entry: Entry::new("/ns/a/7", 7), label: None, detail: None };
        Ok(Listing { members: vec![member], ..Listing::default() })
    });
    let at = SequencePoint(1);
    store.enqueue.then(0, move || {
        let (entry, standing) = (Entry::new("/ns/a!ask/1", 1), Standing::First);
        Ok(Joined::Queued { entry, standing, at, alive: None, alone: true })
    });
    store.leave.then(0, move || Ok(LeaveOutcome { existed: true, successor: false, at }));
    store.close.then(0, || Ok(()));
    store
}

#[tokio::test(start_paused = true)]
async fn a_reason_is_of_limited_length() {
    let store = store();
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let ask = async |length: usize| ask(&viewer(&sessions), &"x".repeat(length)).await;
    assert!(matches!(ask(1001).await, Err(Error::InvalidArgument { argument: "reason", .. })));
    assert!(store.asked("list").is_empty());
    assert!(ask(1000).await.unwrap());
}

/// A watch that reports an event after this many milliseconds.
fn reports(after: u64, event: Option<Event>) -> Watch {
    Box::pin(async move {
        sleep(Duration::from_millis(after)).await;
        event.ok_or_else(|| crate::backend::error::StoreError::Unavailable("it broke".into()))
    })
}

/// Writes a request. Returns when the request was deleted, and when the holder's key was watched.
async fn stands(answers: impl FnOnce(&FakeStore), seconds: u64) -> (Vec<u64>, Vec<u64>) {
    let store = store();
    answers(&store);
    let sessions = Sessions::open(store.shared()).await.unwrap();
    assert!(ask(&viewer(&sessions), "please").await.unwrap());
    sleep(Duration::from_secs(seconds)).await;
    (store.asked("leave"), store.asked("watch /ns/a/7"))
}

#[tokio::test(start_paused = true)]
async fn release_request_lasts_until_holder_releases() {
    let gone = |store: &FakeStore| store.watch.then(0, || Ok(None));
    assert_eq!(stands(gone, 60).await, (vec![0], vec![0]));
    // The key was written to, and then deleted.
    let written = |store: &FakeStore| {
        store.watch.then(0, || Ok(Some(reports(400, Some(Event::Touched)))));
        store.watch.then(0, || Ok(Some(reports(500, Some(Event::Deleted)))));
    };
    assert_eq!(stands(written, 60).await, (vec![900], vec![0, 400]));
}

#[tokio::test(start_paused = true)]
async fn release_request_lasts_at_most_ten_minutes() {
    let never = |store: &FakeStore| {
        store.watch.then(0, || Ok(Some(Box::pin(std::future::pending()))));
    };
    let (left, watched) = stands(never, 1000).await;
    assert_eq!(left, [600_000]);
    // Servers may lose events.
    let pauses = pauses(&watched);
    assert!(pauses.iter().all(|pause| (20_000..=25_001).contains(pause)), "{pauses:?}");
    assert!(pauses.len() >= 23, "{pauses:?}");
}

/// Without room for a watch, the holder's key is read about every second.
#[tokio::test(start_paused = true)]
async fn release_request_without_room_polls() {
    for (own, ahead) in [(true, Fate::Gone), (false, Fate::There)] {
        let store = store();
        // There is room for the request, and not for the holder's key.
        store.change(|facts| facts.watch_budget = 80);
        for _ in 0..5 {
            store.present.then(0, || Ok(Present { own: true, ahead: Fate::There }));
        }
        store.present.then(0, move || Ok(Present { own, ahead }));
        let sessions = Sessions::open(store.shared()).await.unwrap();
        assert!(ask(&viewer(&sessions), "please").await.unwrap());
        sleep(Duration::from_secs(60)).await;
        let looked = store.asked("present");
        let pauses = pauses(&looked);
        assert_eq!(pauses.len(), 5, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (500..=1501).contains(pause)), "{pauses:?}");
        assert_eq!(store.asked("leave"), looked[5..]);
        assert!(store.asked("watch /ns/a/7").is_empty());
    }
}

/// Without a reply, nothing is concluded.
#[tokio::test(start_paused = true)]
async fn release_request_lasts_while_holder_is_unknown() {
    for broken in [false, true] {
        let fails = move |store: &FakeStore| {
            store.watch.then(0, move || match broken {
                true => Ok(Some(reports(0, None))),
                false => Err(crate::backend::error::StoreError::Unavailable("no answer".into())),
            });
        };
        let (left, watched) = stands(fails, 5).await;
        assert!(left.is_empty());
        grow(&pauses(&watched));
    }
}
