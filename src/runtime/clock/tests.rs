//! A machine that is suspended, as a process sees it: `CLOCK_BOOTTIME` jumps ahead, while the
//! monotonic clock and with it tokio's timers know of nothing.

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

/// By how many seconds the clock has jumped.
static SUSPENDED: AtomicU64 = AtomicU64::new(0);

/// What the clock shows in unit tests, of which some stop tokio's clock: both go together. And what
/// suspend would add to this clock, and to no other.
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
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
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
        // The keeper has gone to sleep by then: it is to be woken, not to find out before.
        sleep(Duration::from_millis(200)).await;
        // Nor is the network back at once: only the clock can tell.
        Space::named("suspended").set_reachable(false);
        suspend(TTL * 2);
        let woke = Instant::now();
        let told = timeout(Duration::from_secs(5), guard.lost()).await;
        assert_eq!(told.ok(), Some(LostReason::DeadlinePassed), "it is told");
        // And a little for a busy machine.
        assert!(woke.elapsed() < Duration::from_secs(2), "told after {:?}", woke.elapsed());
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

/// A short one is no reason to lose anything: the session is renewed as soon as that is noticed.
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
