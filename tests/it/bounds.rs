//! The compile-time guarantees of the public types: the API as services use it.

use std::{fmt, hash::Hash, time::Duration};

use distlock::{
    Builder, Client, Election, Error, FencingToken, Leader, Leadership, LockGuard, Lost,
    LostReason, Mutex, Observe, QueueEntry, QueueWatch, ReleaseRequest, Tls, memory::Space,
};
use futures_util::StreamExt;

use crate::common::without_a_runtime;

fn send<T: Send>(value: T) -> T {
    value
}

fn shared<T: Send + Sync + 'static>() {}

#[test]
fn public_types_are_shared_between_threads() {
    shared::<Client>();
    shared::<Builder>();
    shared::<Mutex>();
    shared::<LockGuard>();
    shared::<Election>();
    shared::<Leadership>();
    shared::<Leader>();
    shared::<Observe>();
    shared::<QueueEntry>();
    shared::<QueueWatch>();
    shared::<ReleaseRequest>();
    shared::<FencingToken>();
    shared::<Error>();
    shared::<Lost>();
    shared::<LostReason>();
    shared::<Tls>();
    shared::<Space>();
}

#[test]
fn public_types_have_the_usual_traits() {
    fn token<T: Copy + Ord + Hash + fmt::Display + fmt::Debug + Into<u64>>() {}
    fn error<T: std::error::Error>() {}
    fn handle<T: Clone + fmt::Debug>() {}
    fn shown<T: fmt::Debug>() {}
    token::<FencingToken>();
    error::<Error>();
    error::<Lost>();
    handle::<Client>();
    handle::<Mutex>();
    handle::<Builder>();
    handle::<Election>();
    handle::<Leader>();
    handle::<QueueEntry>();
    handle::<ReleaseRequest>();
    shown::<Leadership>();
    shown::<Observe>();
    shown::<QueueWatch>();
    shown::<LockGuard>();
}

/// Every future can be spawned. Compiling is the test; it also runs, so that nothing is unused.
#[tokio::test]
async fn public_futures_are_send() {
    let client = send(Client::connect("memory://bounds-send")).await.unwrap();
    send(Client::builder("memory://bounds-send").connect()).await.unwrap();
    let mutex = client.mutex("a");
    let guard = send(mutex.lock()).await.unwrap();
    assert!(send(mutex.try_lock()).await.unwrap().is_none());
    assert!(send(mutex.lock_timeout(Duration::from_millis(1))).await.unwrap().is_none());
    assert_eq!(send(guard.run(async { 1 })).await, Ok(1));
    drop(send(guard.lost()));
    assert_eq!(send(mutex.queue()).await.unwrap().len(), 1);
    assert!(send(mutex.holder()).await.unwrap().is_some());
    assert!(send(mutex.watch_queue().unwrap().next()).await.is_some());
    assert!(send(mutex.request_release("please")).await.unwrap());
    assert_eq!(send(guard.release_requested()).await.reason(), "please");
    send(guard.unlock()).await.unwrap();
    let election = client.election("a");
    let leadership = send(election.campaign("a")).await.unwrap();
    assert!(send(election.try_campaign("b")).await.unwrap().is_none());
    assert!(
        send(election.campaign_timeout("b", Duration::from_millis(1))).await.unwrap().is_none()
    );
    send(leadership.proclaim("c")).await.unwrap();
    assert!(send(election.leader()).await.unwrap().is_some());
    assert!(send(election.observe().unwrap().next()).await.is_some());
    send(leadership.resign()).await.unwrap();
    send(client.close()).await.unwrap();
}

/// `run` accepts futures that borrow, and futures that are not `Send`.
#[tokio::test]
async fn run_takes_any_future() {
    let client = Client::connect("memory://bounds-run").await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let not_send = std::rc::Rc::new(String::from("borrowed"));
    assert_eq!(guard.run(async { not_send.len() }).await, Ok(8));
}

/// The pinned interface, as the documentation prints it.
#[tokio::test]
async fn the_pinned_interface_compiles_as_written() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect("memory://bounds-pinned").await?;
    client.close().await?;
    let client = Client::builder("memory://bounds-pinned")
        .namespace("/app/locks")
        .session_ttl(Duration::from_secs(10))
        .owner("worker-7")
        .connect()
        .await?;
    let _: Duration = client.session_ttl();
    let client: Client = client.clone();

    let mutex: Mutex = client.mutex("nightly-report");
    let guard: LockGuard = mutex.lock().await?;
    let busy: Option<LockGuard> = mutex.try_lock().await?;
    assert!(busy.is_none());
    let late: Option<LockGuard> = mutex.lock_timeout(Duration::from_millis(10)).await?;
    assert!(late.is_none());

    let token: FencingToken = guard.fencing_token();
    let number: u64 = token.into();
    assert_eq!(token.to_string(), number.to_string());
    let (name, key): (&str, &str) = (guard.name(), guard.key());
    assert_eq!(name, "nightly-report");
    assert!(key.starts_with("/app/locks/nightly-report/"));
    let (valid, remaining): (bool, Duration) = (guard.is_valid(), guard.remaining());
    assert!(valid && remaining <= Duration::from_secs(10));
    let lost = tokio::time::timeout(Duration::from_millis(10), guard.lost()).await;
    assert!(lost.is_err(), "the lock is held");
    let outcome: Result<&str, Lost> = guard.run(async { "done" }).await;
    assert_eq!(outcome?, "done");
    guard.unlock().await?;
    drop(mutex.lock().await?);

    let next = mutex.lock().await?;
    client.close().await?;
    let reason: LostReason = next.lost().await;
    assert_eq!(reason, LostReason::ClientClosed);
    let error: Error = mutex.lock().await.unwrap_err();
    let _: bool = error.is_retryable();
    Ok(())
}

/// Watches also implement `futures::Stream`, and need no runtime of the caller.
#[test]
fn streams_need_no_runtime() {
    let seen = without_a_runtime(async {
        let client = Client::connect("memory://bounds-stream").await.unwrap();
        let election = client.election("a");
        let leadership = election.campaign("one").await.unwrap();
        let observe = election.observe().unwrap().then(async |leader| {
            leadership.proclaim("two").await.unwrap();
            leader.value_str().unwrap().to_owned()
        });
        observe.take(2).collect::<Vec<_>>().await
    });
    assert_eq!(seen, ["one", "two"]);
}

/// The streams yield the same as their own methods, and `None` repeatedly at the end.
#[tokio::test]
async fn watches_are_streams() {
    let client = Client::connect("memory://bounds-watched").await.unwrap();
    let (mutex, election) = (client.mutex("a"), client.election("a"));
    let (mut queue, mut leaders) = (mutex.watch_queue().unwrap(), election.observe().unwrap());
    assert_eq!(StreamExt::next(&mut queue).await.unwrap().len(), 0);
    let guard = mutex.lock().await.unwrap();
    let leadership = election.campaign("one").await.unwrap();
    let seen = StreamExt::next(&mut queue).await.unwrap();
    assert_eq!(seen.iter().map(QueueEntry::key).collect::<Vec<_>>(), [guard.key()]);
    let seen = StreamExt::next(&mut leaders).await.unwrap();
    assert_eq!(seen.fencing_token(), leadership.fencing_token());
    client.close().await.unwrap();
    for _ in 0..2 {
        assert!(StreamExt::next(&mut queue).await.is_none());
        assert!(StreamExt::next(&mut leaders).await.is_none());
    }
}

#[tokio::test]
async fn debug_output_names_types_keys_and_tokens() {
    let client = Client::connect("memory://bounds-shown").await.unwrap();
    let mutex = client.mutex("a");
    let guard = mutex.reentrant("me").lock().await.unwrap();
    let (key, token) = (guard.key().to_owned(), guard.fencing_token());
    let shown = format!("{guard:?}");
    assert!(shown.starts_with("ReentrantGuard") && shown.contains(&key), "{shown}");
    assert!(shown.contains(&format!("fencing_token: {token}")), "{shown}");
    let shown = format!("{client:?} {mutex:?}");
    assert!(shown.contains("Holders"), "{shown}");
    let shown = format!("{:?}", mutex.watch_queue().unwrap());
    assert!(shown.contains("Feed"), "{shown}");
}
