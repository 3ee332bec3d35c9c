//! Watches on nodes.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use zookeeper_client::{EventType, OneshotWatcher};

use crate::backend::{Event, Result, StoreError, Watch};

/// Waits for the one event of a watch on a waiter's node. Dropping the future cancels the watch.
pub(super) fn watch(watcher: OneshotWatcher) -> Watch {
    Box::pin(async move {
        match event(watcher).await? {
            EventType::NodeDeleted => Ok(Event::Deleted),
            EventType::NodeDataChanged => Ok(Event::Touched),
            event => Err(StoreError::Unknown(format!("unexpected watch event: {event:?}").into())),
        }
    })
}

/// Waits for any event of a directory.
pub(super) fn any(watcher: OneshotWatcher) -> Watch {
    Box::pin(async move { event(watcher).await.map(|_| Event::Touched) })
}

async fn event(watcher: OneshotWatcher) -> Result<EventType> {
    let mut changed = pin!(watcher.changed());
    // The crate panics when its session task has ended
    // (https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/watch.rs#L120).
    let event = poll_fn(|context| {
        let poll = catch_unwind(AssertUnwindSafe(|| changed.as_mut().poll(context)));
        poll.map_or(Poll::Ready(None), |poll| poll.map(|event| Some(event.event_type)))
    });
    match event.await {
        // The next request of the session, or a call that waits for its end, returns the reason.
        Some(EventType::Session) => Err(StoreError::Unknown("the session has ended".into())),
        Some(event) => Ok(event),
        None => Err(StoreError::Unknown("the session's task has ended".into())),
    }
}
