//! The signals of sessions and requests, of slow waits, and of refused writes.

use std::{collections::BTreeSet, time::Duration};

use distlock::{Client, Error, memory::Space};
use distlock_testkit::telemetry::Signal;
use tokio::time::sleep;

use super::listener::{Listener, all, first, locked, locked_with};

/// Waits for a signal of this kind.
async fn wait_for(what: &str, is: impl Fn(&Signal) -> bool) -> Signal {
    for _ in 0..2000 {
        if let Some(signal) = first(&is) {
            return signal;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} was never emitted; {:#?}", all());
}

#[tokio::test]
async fn a_slow_wait_names_the_holder() {
    let listener = Listener::new("slow-wait");
    let builder = listener.builder().recheck_interval(Duration::from_millis(100));
    let client = builder.clone().connect().await.unwrap();
    let other = builder.owner("worker-7").connect().await.unwrap();
    let name = listener.lock("a");
    let guard = other.mutex(&name).lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = client.mutex(&name);
        async move { mutex.lock().await.unwrap() }
    });
    let slow = |signal: &Signal| match signal {
        Signal::Logged(level, message, fields, spans) => {
            message == "still waiting for the lock"
                && level == "INFO"
                && fields["name"] == name
                && fields["holder"] == "worker-7"
                && fields["holder_token"] == guard.fencing_token().to_string()
                && fields["place"] == "1"
                && spans == &["distlock.acquire"]
        }
        _ => false,
    };
    wait_for("the holder", slow).await;
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unlock().await.unwrap();
}

/// The waiter is not the first one, so it waits at the gate.
#[tokio::test]
async fn a_slow_wait_for_a_permit_names_a_holder() {
    let listener = Listener::new("slow-permit");
    let builder = listener.builder().recheck_interval(Duration::from_millis(100));
    let client = builder.clone().connect().await.unwrap();
    let ahead = builder.clone().connect().await.unwrap();
    let other = builder.owner("worker-8").connect().await.unwrap();
    let name = listener.lock("a");
    let holders = other.semaphore(&name, 2);
    let first = holders.acquire().await.unwrap();
    let second = holders.acquire().await.unwrap();
    let waits = |client: &Client| {
        let semaphore = client.semaphore(&name, 2);
        tokio::spawn(async move { semaphore.acquire().await.unwrap() })
    };
    let next = waits(&ahead);
    while holders.queue().await.unwrap().len() < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    let last = waits(&client);
    let slow = |signal: &Signal| match signal {
        Signal::Logged(_, message, fields, _) => {
            message == "still waiting for the lock"
                && fields["name"] == name
                && fields["holder"] == "worker-8"
                && fields["holder_token"] == first.fencing_token().to_string()
                && fields["place"] == "3"
        }
        _ => false,
    };
    wait_for("the holder", slow).await;
    first.release().await.unwrap();
    second.release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
    last.await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_replaced() {
    let (listener, client, guard) = locked("replaced").await;
    Space::named("replaced").expire_session(guard.key());
    guard.lost().await;
    client.mutex(listener.lock("a")).lock().await.unwrap().unlock().await.unwrap();
    let warning = |signal: &Signal| match signal {
        Signal::Logged(level, message, ..) => {
            level == "WARN"
                && message.starts_with("the session was lost, and a new one was opened")
                && message.ends_with("the store has ended the session")
        }
        _ => false,
    };
    wait_for("the replacement", warning).await;
    for reason in ["first", "replaced"] {
        let opened = |signal: &Signal| {
            matches!(signal, Signal::Counted(name, labels, 1)
                if name == "distlock.session.opened" && labels["reason"] == reason)
        };
        wait_for(reason, opened).await;
    }
}

#[tokio::test]
async fn a_write_that_is_refused() {
    let (_listener, _client, guard) = locked("refused").await;
    guard.put("/state", "one").await.unwrap();
    Space::named("refused").delete(guard.key());
    assert!(matches!(guard.put("/state", "two").await, Err(Error::Lost { .. })));
    let rejected = |signal: &Signal| {
        matches!(signal, Signal::Counted(name, labels, 1)
            if name == "distlock.write.rejected" && labels["reason"] == "evicted")
    };
    wait_for("the refusal", rejected).await;
    // The lock is known to be lost, so nothing is sent.
    assert!(matches!(guard.put("/state", "three").await, Err(Error::Lost { .. })));
    let count = all().iter().filter(|signal| rejected(signal)).count();
    assert_eq!(count, 2, "both refusals are counted");
}

#[tokio::test]
async fn keepalive_signals_are_emitted() {
    // The session must not expire before the store is gone, on a busy machine.
    let (_listener, _client, guard) = locked_with("kept", |builder| {
        builder.session_ttl(Duration::from_secs(3)).request_timeout(Duration::from_millis(500))
    })
    .await;
    let proved = |signal: &Signal| {
        matches!(signal, Signal::Measured(name, labels, _)
            if name == "distlock.keepalive.duration" && labels["outcome"] == "ok")
    };
    wait_for("a keepalive", proved).await;
    let remaining = |signal: &Signal| {
        matches!(signal, Signal::Set(name, _, left)
            if name == "distlock.session.remaining" && *left > 0.0 && *left < 3.0)
    };
    wait_for("the remaining time of the session", remaining).await;
    Space::named("kept").set_reachable(false);
    let failed = |signal: &Signal| {
        matches!(signal, Signal::Counted(name, labels, 1)
            if name == "distlock.keepalive.failures" && labels.contains_key("reason"))
    };
    wait_for("the failure", failed).await;
    drop(guard);
}

#[tokio::test]
async fn requests_and_releases() {
    let (_listener, _client, guard) = locked("requests").await;
    guard.unlock().await.unwrap();
    for operation in ["open", "join", "leave"] {
        let asked = |signal: &Signal| {
            matches!(signal, Signal::Measured(name, labels, _)
                if name == "distlock.store.request.duration"
                    && labels["operation"] == operation
                    && labels["outcome"] == "ok")
        };
        wait_for(operation, asked).await;
    }
    for by in [1.0, -1.0] {
        let pending = |signal: &Signal| {
            matches!(signal, Signal::Changed(name, _, change)
                if name == "distlock.release.pending" && *change == by)
        };
        wait_for("a release", pending).await;
    }
}

/// Each metric has a unit and a description, and no other metric is emitted.
#[tokio::test]
async fn metrics_are_described() {
    let listener = Listener::new("described");
    drop(listener.client().await);
    let mut described = BTreeSet::new();
    for signal in all() {
        if let Signal::Described(_, name, unit) = signal {
            assert_eq!(unit == "seconds", seconds(&name), "{name}");
            described.insert(name);
        }
    }
    let names = [
        "acquire.duration",
        "held",
        "hold.duration",
        "keepalive.duration",
        "keepalive.failures",
        "leader",
        "lost",
        "recheck.found",
        "release.pending",
        "session.opened",
        "session.remaining",
        "store.request.duration",
        "waiters",
        "write.rejected",
    ];
    let names: BTreeSet<_> = names.map(|name| format!("distlock.{name}")).into();
    assert_eq!(described, names);
    for signal in all() {
        if let Signal::Counted(name, ..)
        | Signal::Changed(name, ..)
        | Signal::Set(name, ..)
        | Signal::Measured(name, ..) = signal
        {
            assert!(names.contains(&name), "{name}");
        }
    }
}

fn seconds(name: &str) -> bool {
    name.ends_with(".duration") || name.ends_with(".remaining")
}
