//! Which keys callers leave behind, and which results they get.

use tokio::task::JoinSet;

use super::*;

/// Waits until only the keys `others` are left.
async fn only(script: &Script, others: &[&str], what: &str) {
    let mut changed = script.changed.subscribe();
    let clean = async {
        while script.keys() != others {
            changed.changed().await.unwrap();
        }
    };
    assert!(
        timeout(Duration::from_secs(20), clean).await.is_ok(),
        "{what}: left behind {:?}",
        script.keys()
    );
}

/// Runs one caller, which leaves after `patience`, behind a holder that releases after a while.
async fn play(first: [First; 4], wait: Option<Wait>, held: bool, patience: Option<Duration>) {
    let what = format!("{first:?} {wait:?} {held} {patience:?}");
    let script = Script::new(first);
    let session = session(&script).await;
    if held {
        script.add("holder");
    }
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "name").unwrap()).unwrap();
    let wait = wait.unwrap_or_else(|| Wait::Until(Instant::now() + Duration::from_millis(25)));
    let caller = acquire(attempt, wait, Mode::Exclusive);
    let release = async {
        sleep(Duration::from_millis(15)).await;
        if held {
            script.remove("holder");
        }
    };
    let (outcome, ()) =
        tokio::join!(timeout(patience.unwrap_or(Duration::from_secs(20)), caller), release);
    match outcome {
        Err(_) => assert!(patience.is_some(), "{what}: hangs"),
        Ok(Ok(Some(hold))) => {
            assert_eq!(script.keys(), [&*hold.own.entry.key], "{what}: granted");
            drop(hold);
        }
        Ok(Ok(None)) => assert!(!matches!(wait, Wait::Forever), "{what}: gave up"),
        Ok(Err(failure)) => {
            // Only a caller that does not wait may get the error that the store did not reply.
            let unanswered = matches!(failure, Failure::Final(Error::Unavailable { .. }));
            assert!(unanswered && matches!(wait, Wait::No), "{what}: {failure:?}");
        }
    }
    if first[0] == First::LandsLate {
        sleep(LANDS_AFTER).await;
    }
    only(&script, &[], &what).await;
    assert_eq!(session.deadline.lost_reason(), None, "{what}: the session is lost");
}

/// Few enough scenes in parallel that each keeps its bounds on a busy machine.
const AT_ONCE: usize = 200;

async fn play_each(scenes: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let mut playing = JoinSet::new();
    for scene in scenes {
        if playing.len() == AT_ONCE {
            playing.join_next().await.unwrap().unwrap();
        }
        playing.spawn(scene);
    }
    while let Some(scene) = playing.join_next().await {
        scene.unwrap();
    }
}

/// Runs every combination of scripts, waits and moments to leave.
async fn play_all(enqueue: First) {
    let mut scenes = Vec::new();
    for standing in ALL {
        for gone in ALL {
            for leave in ALL {
                for wait in [Some(Wait::Forever), Some(Wait::No), None] {
                    for patience in [None, Some(0), Some(2), Some(8), Some(15), Some(16), Some(32)]
                    {
                        let patience = patience.map(Duration::from_millis);
                        for held in [true, false] {
                            scenes.push(play(
                                [enqueue, standing, gone, leave],
                                wait,
                                held,
                                patience,
                            ));
                        }
                    }
                }
            }
        }
    }
    play_each(scenes).await;
}

#[tokio::test]
async fn no_key_left_after_answered_join() {
    play_all(First::Answers).await;
}

#[tokio::test]
async fn no_key_left_after_failed_join() {
    play_all(First::Fails).await;
}

#[tokio::test]
async fn no_key_left_after_lost_join_reply() {
    play_all(First::LosesReply).await;
}

#[tokio::test]
async fn no_key_left_after_slow_join() {
    play_all(First::Lags).await;
}

#[tokio::test]
async fn no_key_left_after_hanging_join() {
    play_all(First::Hangs).await;
}

#[tokio::test]
async fn no_key_left_after_late_join() {
    let mut scenes = Vec::new();
    for wait in [Some(Wait::Forever), Some(Wait::No), None] {
        for patience in [None, Some(0), Some(2), Some(40), Some(100)] {
            for held in [true, false] {
                let first = [First::LandsLate, First::Answers, First::Answers, First::Answers];
                scenes.push(play(first, wait, held, patience.map(Duration::from_millis)));
            }
        }
    }
    play_each(scenes).await;
}

/// Starts a caller that waits behind these keys, and returns it with its own key.
async fn wait_behind(
    script: &Arc<Script>,
    ahead: &[&str],
) -> (Arc<Session>, tokio::task::JoinHandle<Result<Option<Hold>, Failure>>, String) {
    let session = session(script).await;
    for key in ahead {
        script.add(key);
    }
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "name").unwrap()).unwrap();
    let caller = tokio::spawn(acquire(attempt, Wait::Forever, Mode::Exclusive));
    while script.keys().len() == ahead.len() {
        sleep(Duration::from_millis(1)).await;
    }
    (session, caller, script.keys().pop().unwrap())
}

#[tokio::test]
async fn a_wake_up_is_not_a_grant() {
    let script = Script::new([First::Answers; 4]);
    let (_session, mut caller, own) = wait_behind(&script, &["holder", "middle"]).await;
    // The predecessor gives up: its key is deleted, and the lock is still held.
    script.remove("middle");
    assert!(timeout(Duration::from_millis(50), &mut caller).await.is_err(), "granted while held");
    script.remove("holder");
    let hold = caller.await.unwrap().unwrap().unwrap();
    assert_eq!((&*hold.own.entry.key, script.keys()), (&*own, vec![own.clone()]));
}

#[tokio::test]
async fn a_deleted_waiter_is_notified() {
    let script = Script::new([First::Answers; 4]);
    let (_session, caller, own) = wait_behind(&script, &["holder"]).await;
    script.remove(&own);
    script.remove("holder");
    let failure = caller.await.unwrap().unwrap_err();
    assert!(matches!(failure, Failure::Final(Error::Evicted { .. })), "{failure:?}");
}

#[tokio::test]
async fn a_lost_session_ends_the_wait() {
    let script = Script::new([First::Answers; 4]);
    let (session, caller, _) = wait_behind(&script, &["holder"]).await;
    session.deadline.lose(LostReason::SessionExpired);
    let failure = caller.await.unwrap().unwrap_err();
    assert!(matches!(failure, Failure::Final(Error::SessionLost { .. })), "{failure:?}");
}

async fn held(script: &Arc<Script>) -> (Arc<Session>, Hold) {
    let session = session(script).await;
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "name").unwrap()).unwrap();
    let hold =
        acquire(attempt, Wait::Forever, Mode::Exclusive).await.unwrap().expect("nobody is ahead");
    (session, hold)
}

/// A key that is already gone counts as released only if the reply to an earlier release request
/// was lost.
#[tokio::test]
async fn externally_deleted_key_is_not_released() {
    for (first, released) in
        [(First::Fails, false), (First::LosesReply, true), (First::Answers, false)]
    {
        let script = Script::new([First::Answers, First::Answers, First::Answers, first]);
        let (_session, hold) = held(&script).await;
        if first != First::LosesReply {
            script.remove(&hold.own.entry.key);
        }
        let outcome = hold.attempt.release_within(Duration::from_secs(20)).await;
        assert_eq!(matches!(outcome, Release::Released), released, "{first:?} {outcome:?}");
        assert!(released || matches!(outcome, Release::Absent), "{first:?} {outcome:?}");
    }
}

/// The session's deadline passed while no lock was held, and no renewal is confirmed.
#[tokio::test]
async fn try_ends_without_session_confirmation() {
    const TTL: Duration = Duration::from_secs(6);
    let mut script = Script::new([First::Answers; 4]);
    Arc::get_mut(&mut script).unwrap().ttl = TTL;
    script.answers.store(false, Ordering::Relaxed);
    let shared = Shared {
        runtime: Runtime::own().unwrap(),
        ttl: TTL,
        connect_timeout: TTL,
        request_timeout: TIMEOUT,
        recheck_interval: Duration::from_secs(60),
        ..fake_store::shared(Arc::new(ScriptedBackend(Arc::clone(&script))))
    };
    let client = Client::open(shared).await.unwrap();
    sleep(TTL).await;
    let start = Instant::now();
    let error = client.mutex("a").try_lock().await.expect_err("it may not be granted");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() < TTL / 2, "{:?}", start.elapsed());
    only(&script, &[], "a try that was given up").await;
}

/// A request that is in flight when the holder's deadline passes may finish until the store can end
/// the session.
#[tokio::test]
async fn a_session_is_not_ended_before_its_margin() {
    const TTL: Duration = Duration::from_secs(1);
    let mut script = Script::new([First::Answers; 4]);
    Arc::get_mut(&mut script).unwrap().ttl = TTL;
    script.answers.store(false, Ordering::Relaxed);
    let opened = clock::now();
    let (session, hold) = held(&script).await;
    assert_eq!(session.deadline.lost().await, LostReason::DeadlinePassed);
    let lost = clock::now();
    let ended = async {
        while script.closed.lock().unwrap().is_none() {
            sleep(LAG).await;
        }
    };
    timeout(Duration::from_secs(20), ended).await.expect("it is ended then");
    let closed = script.closed.lock().unwrap().expect("just seen");
    assert!(
        closed >= opened + TTL,
        "lost after {:?}, ended after {:?}",
        lost - opened,
        closed - opened
    );
    drop(hold);
}

/// Several queues are joined in one request. In every case, either all of the keys are held, or
/// none exists.
#[tokio::test]
async fn no_key_left_after_joining_several() {
    let mut scenes = Vec::new();
    for first in [
        First::Answers,
        First::Fails,
        First::LosesReply,
        First::Lags,
        First::Hangs,
        First::LandsLate,
    ] {
        for leave in ALL {
            for patience in [0, 2, 8, 1000].map(Duration::from_millis) {
                for held in [true, false] {
                    scenes.push(join_several(first, leave, patience, held));
                }
            }
        }
    }
    play_each(scenes).await;
}

async fn join_several(first: First, leave: First, patience: Duration, held: bool) {
    let what = format!("{first:?} {leave:?} {patience:?} {held}");
    let script = Script::new([first, First::Answers, First::Answers, leave]);
    let session = session(&script).await;
    if held {
        script.add("holder");
    }
    let queues = ["a", "b", "c"].map(|name| Queue::new("/ns", name).unwrap());
    let attempts =
        queues.iter().map(|queue| Attempt::in_session(&session, queue).unwrap()).collect();
    let joining = Carried::whole(&session.shared.runtime, Attempt::join_all(attempts));
    match timeout(patience, joining).await {
        Ok(Ok(Some(entered))) => {
            assert!(!held, "{what}: joined behind somebody");
            let mut holds = Vec::new();
            for entered in entered {
                holds.push(
                    hold(entered, Wait::Forever, Mode::Exclusive)
                        .await
                        .unwrap()
                        .expect("nobody is ahead"),
                );
            }
            let keys: Vec<_> = holds.iter().map(|hold| hold.own.entry.key.to_string()).collect();
            assert_eq!(script.keys(), keys, "{what}: granted");
        }
        Ok(Ok(None)) => assert!(held, "{what}: nobody is there"),
        Ok(Err(error)) => {
            assert!(error.is_transient() && first != First::Answers, "{what}: {error:?}")
        }
        Err(_) => assert!(patience < TIMEOUT, "{what}: hangs"),
    }
    if first == First::LandsLate {
        sleep(LANDS_AFTER).await;
    }
    only(&script, if held { &["holder"] } else { &[] }, &what).await;
    let done = async {
        while session.deadline.vitals().busy {
            sleep(LAG).await;
        }
    };
    assert!(timeout(Duration::from_secs(20), done).await.is_ok(), "{what}: a claim is left");
    assert_eq!(session.deadline.lost_reason(), None, "{what}: the session is lost");
}
