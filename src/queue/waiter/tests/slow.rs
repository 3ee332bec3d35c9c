//! A waiter that reads the queue for the log, from a store that does not reply to that read.

use tracing::{
    Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::{Interest, set_default},
};

use super::*;

/// Enables every log event, and records none.
struct Enabled;

impl Subscriber for Enabled {
    /// Other tests run on other threads, without a subscriber.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns a watch that reports a deletion half a minute later, after the first recheck.
fn deleted_later() -> Watch {
    Box::pin(async {
        sleep(Duration::from_secs(30)).await;
        Ok(Event::Deleted)
    })
}

#[tokio::test(start_paused = true)]
async fn read_for_the_log_does_not_delay_a_waiter() {
    let _logs = set_default(Enabled);
    let store = store(|| behind(true, true));
    store.urgent_watch.then(0, || Ok(Some(deleted_later())));
    store.present.then(0, || Ok(Present { own: true, ahead: Fate::There }));
    store.present.then(0, || Ok(Present { own: true, ahead: Fate::Gone }));
    let taken = waits(&store, 31).await;
    assert!(taken.is_some_and(|taken| taken.is_ok()));
    assert_eq!(store.asked("list").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn read_for_the_log_does_not_delay_a_waiter_for_permits() {
    let _logs = set_default(Enabled);
    let answers = |store: &FakeStore| {
        store.list.then(0, || Ok(full(None)));
        store.list.then(0, || Ok(full(Some(deleted_later()))));
        store.list.then(600_000, || Ok(free()));
        store.list.then(0, || Ok(free()));
    };
    let (store, granted) = waits_for_a_permit(answers, 31).await;
    assert!(granted);
    assert_eq!(store.asked("list").len(), 4);
}
