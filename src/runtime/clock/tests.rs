//! A suspended machine, as a process sees it: `CLOCK_BOOTTIME` jumps ahead, but the monotonic clock
//! and therefore tokio's timers do not.

use std::{
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;

use super::*;
use crate::{Client, Error, LockGuard, LostReason, memory::Space};

const TTL: Duration = Duration::from_secs(60);

/// The number of seconds by which the clock has jumped.
static SUSPENDED: AtomicU64 = AtomicU64::new(0);

/// Returns the clock of unit tests: tokio's clock, which some tests pause, plus the time of a
/// simulated suspend.
pub(super) fn shown(now: Duration) -> Duration {
    static START: LazyLock<(AtomicU64, Instant)> = LazyLock::new(|| {
        let early = std::time::Instant::now() - Duration::from_secs(30);
        (AtomicU64::new(0), early.into())
    });
    let (first, early) = &*START;
    let nanoseconds = u64::try_from(now.as_nanos()).unwrap();
    let _ = first.compare_exchange(0, nanoseconds, Ordering::Relaxed, Ordering::Relaxed);
    let first = Duration::from_nanos(first.load(Ordering::Relaxed));
    let suspended = if CLOCK == ClockId::Boottime { SUSPENDED.load(Ordering::Relaxed) } else { 0 };
    first + Instant::now().duration_since(*early) + Duration::from_secs(suspended)
}

fn suspend(time: Duration) {
    SUSPENDED.fetch_add(time.as_secs(), Ordering::Relaxed);
}

/// Runs this test's body in a process of its own: all others read the same clock.
fn alone(test: &str, body: impl Future<Output = ()>) {
    const VARIABLE: &str = "DISTLOCK_TEST_SUSPEND";
    if std::env::var(VARIABLE).is_ok_and(|chosen| chosen == test) {
        return tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(body);
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    process
        .args(["--exact", &format!("runtime::clock::tests::{test}"), "--nocapture"])
        .env(VARIABLE, test);
    let output = process.output().unwrap();
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

async fn held() -> LockGuard {
    let client = Client::builder("memory://suspended").session_ttl(TTL).connect().await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    assert!(guard.is_valid());
    guard
}

#[test]
fn suspended_holder_sees_loss_on_first_check() {
    alone("suspended_holder_sees_loss_on_first_check", async {
        let guard = held().await;
        suspend(TTL * 2);
        assert!(!guard.is_valid(), "valid after two TTLs of suspend");
        assert_eq!(guard.remaining(), Duration::ZERO);
    });
}

#[test]
fn a_suspended_holder_is_notified_within_a_second() {
    alone("a_suspended_holder_is_notified_within_a_second", async {
        let guard = held().await;
        // By then, the keeper sleeps, so that only its timer can wake it.
        sleep(Duration::from_millis(200)).await;
        // The network is not available again at once, so only the clock shows the loss.
        Space::named("suspended").set_reachable(false);
        suspend(TTL * 2);
        let woke = Instant::now();
        let lost = timeout(Duration::from_secs(5), guard.lost()).await;
        assert_eq!(lost.ok(), Some(LostReason::DeadlinePassed), "the loss is reported");
        // Some more time, for a busy machine.
        assert!(woke.elapsed() < Duration::from_secs(2), "reported after {:?}", woke.elapsed());
    });
}

#[test]
fn max_hold_ends_within_a_second_after_a_suspend() {
    alone("max_hold_ends_within_a_second_after_a_suspend", async {
        const MAX_HOLD: Duration = Duration::from_secs(60);
        let builder = Client::builder("memory://suspended").session_ttl(MAX_HOLD * 10);
        let client = builder.connect().await.unwrap();
        let guard = client.mutex("a").max_hold(MAX_HOLD).lock().await.unwrap();
        // By then, the hold's timer is set.
        sleep(Duration::from_millis(200)).await;
        suspend(MAX_HOLD);
        let woke = Instant::now();
        let lost = timeout(Duration::from_secs(5), guard.lost()).await;
        assert_eq!(lost.ok(), Some(LostReason::HeldTooLong), "the end is reported");
        assert!(woke.elapsed() < Duration::from_secs(2), "reported after {:?}", woke.elapsed());
        let other = client.mutex("a").lock_timeout(Duration::from_secs(5)).await.unwrap();
        assert!(other.is_some(), "the key is deleted");
    });
}

#[test]
fn run_stops_after_a_suspend() {
    alone("run_stops_after_a_suspend", async {
        let guard = held().await;
        let (wake, woken) = oneshot::channel::<()>();
        let (alive, reached) = (Arc::new(()), AtomicU64::new(0));
        let kept = Arc::clone(&alive);
        let work = guard.run(async {
            let _kept = kept;
            reached.store(1, Ordering::Relaxed);
            woken.await.unwrap();
            reached.store(2, Ordering::Relaxed);
        });
        let suspend = async {
            while reached.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            suspend(TTL * 2);
            wake.send(()).unwrap();
        };
        let (outcome, ()) = tokio::join!(work, suspend);
        assert_eq!(
            reached.load(Ordering::Relaxed),
            1,
            "the work went on after two TTLs of suspend"
        );
        assert_eq!(outcome.unwrap_err().reason, LostReason::DeadlinePassed);
        assert_eq!(Arc::strong_count(&alive), 1, "the work was not dropped");
    });
}

#[test]
fn an_unlock_after_a_suspend_reports_the_loss() {
    alone("an_unlock_after_a_suspend_reports_the_loss", async {
        let guard = held().await;
        suspend(TTL * 2);
        let error = guard.unlock().await.unwrap_err();
        assert!(
            matches!(error, Error::Lost { reason: LostReason::DeadlinePassed, .. }),
            "{error:?}"
        );
    });
}

/// After a short suspend, no lock is lost: the session is renewed once the suspend is noticed.
#[test]
fn a_short_suspend_is_survived() {
    alone("a_short_suspend_is_survived", async {
        let guard = held().await;
        suspend(TTL / 2);
        assert!(guard.is_valid() && guard.remaining() < TTL / 2, "{:?} left", guard.remaining());
        let woke = Instant::now();
        while guard.remaining() < TTL * 3 / 4 {
            assert!(
                woke.elapsed() < Duration::from_secs(2),
                "not renewed after {:?}",
                woke.elapsed()
            );
            sleep(Duration::from_millis(5)).await;
        }
        guard.unlock().await.unwrap();
    });
}
