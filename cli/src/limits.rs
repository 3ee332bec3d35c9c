//! How long before the lock's deadline a command is asked to end, and killed.

use std::time::Duration;

use distlock::StoreKind;
use rustix::process::Signal;

/// How a command is ended before the lock's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The signal that asks the command to end.
    pub(crate) kill_signal: Signal,
    /// The time between that signal and KILL.
    pub(crate) kill_after: Duration,
    /// The time between KILL and the deadline, for killing and for delays by the scheduler.
    pub(crate) margin: Duration,
}

/// Refuses a minimum time to hold the lock that ends after the maximum: the command would end in
/// time, and the lock would be lost.
pub(crate) fn check(at_least: Option<Duration>, at_most: Option<Duration>) -> Result<(), String> {
    match (at_least, at_most) {
        (Some(least), Some(most)) if least >= most => {
            Err("--hold-at-least must be less than --max-hold".to_owned())
        }
        _ => Ok(()),
    }
}

/// The longest default of `kill_after`.
const ENOUGH: Duration = Duration::from_secs(5);

impl Limits {
    /// Computes the limits for locks on this store with this TTL. Without faults, at least
    /// `reserve` is always left before the deadline. The error suggests other values.
    pub(crate) fn new(
        backend: StoreKind,
        ttl: Duration,
        reserve: Duration,
        kill_signal: Signal,
        kill_after: Option<Duration>,
        max_hold: Option<Duration>,
    ) -> Result<Self, String> {
        let margin = (ttl / 25).clamp(Duration::from_millis(40), Duration::from_millis(500));
        let most = reserve.saturating_sub(margin * 3 / 2);
        let held = max_hold.map(|time| time.saturating_sub(margin * 2));
        if held.is_some_and(|held| held <= kill_after.unwrap_or_default()) {
            let least = kill_after.unwrap_or_default().saturating_add(margin * 2);
            return Err(format!(
                "--max-hold is too short: it leaves the command no time to run, so choose more \
                 than {}",
                humantime::format_duration(least)
            ));
        }
        // At least half of the time is left for the work.
        let usual = held.map_or(most / 2, |held| (most / 2).min(held / 2));
        let kill_after = kill_after.unwrap_or(usual.min(ENOUGH));
        if kill_after > most {
            let ratio = kill_after.as_secs_f64() / most.as_secs_f64().max(0.001);
            return Err(format!(
                "--kill-after {} is too long for a TTL of {} on {backend}: even without faults, \
                 less time than that may be left before the deadline; use {} or less, or \
                 --ttl {}s",
                humantime::format_duration(kill_after),
                humantime::format_duration(ttl),
                humantime::format_duration(Duration::from_millis(
                    u64::try_from(most.as_millis()).unwrap_or(0)
                )),
                (ttl.as_secs_f64() * ratio).ceil(),
            ));
        }
        Ok(Self { kill_signal, kill_after, margin })
    }

    /// When the command is asked to end.
    pub(crate) fn ended_at(&self, deadline: Duration) -> Duration {
        self.killed_at(deadline).saturating_sub(self.kill_after)
    }

    /// When the command is killed.
    pub(crate) fn killed_at(&self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.margin)
    }

    /// How often the deadline is sent to the guardian.
    pub(crate) fn tick(&self) -> Duration {
        self.margin / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(backend: StoreKind, ttl: u64, kill_after: Option<u64>) -> Result<Limits, String> {
        let millis = Duration::from_millis;
        let ttl = millis(ttl);
        let reserve = if backend == StoreKind::ZooKeeper { ttl * 4 / 15 } else { ttl * 17 / 30 };
        Limits::new(backend, ttl, reserve, Signal::TERM, kill_after.map(millis), None)
    }

    #[test]
    fn default_limits_leave_time_to_end() {
        for backend in [StoreKind::Etcd, StoreKind::ZooKeeper] {
            for ttl in [1_000, 2_000, 10_000, 60_000] {
                let limits = limits(backend, ttl, None).expect("the default fits");
                assert!(limits.kill_after > Duration::from_millis(ttl / 20), "{limits:?}");
            }
        }
        assert_eq!(
            limits(StoreKind::Etcd, 60_000, None).map(|limits| limits.kill_after),
            Ok(ENOUGH)
        );
    }

    #[test]
    fn max_hold_must_exceed_kill_after() {
        let limits = |kill_after: Option<u64>, max_hold| {
            let (millis, ttl) = (Duration::from_millis, Duration::from_secs(10));
            let (kill_after, max_hold) = (kill_after.map(millis), Some(millis(max_hold)));
            Limits::new(StoreKind::Etcd, ttl, ttl * 17 / 30, Signal::TERM, kill_after, max_hold)
        };
        let short = limits(None, 1_800).expect("it fits");
        assert!(short.kill_after <= Duration::from_millis(500), "{short:?}");
        assert!(limits(Some(3_000), 3_801).is_ok());
        for (kill_after, max_hold) in [(Some(3_000), 3_800), (None, 800), (None, 0)] {
            let error = limits(kill_after, max_hold).expect_err("too short");
            assert!(error.contains("choose more than"), "{error}");
        }
    }

    #[test]
    fn hold_at_least_must_be_less_than_max_hold() {
        let check = |least: Option<u64>, most: Option<u64>| {
            let [least, most] = [least, most].map(|time| time.map(Duration::from_millis));
            super::check(least, most)
        };
        assert!(check(Some(999), Some(1_000)).is_ok());
        assert!(check(Some(1_000), None).is_ok() && check(None, Some(0)).is_ok());
        assert!(check(Some(1_000), Some(1_000)).is_err() && check(Some(9_000), Some(1)).is_err());
    }

    #[test]
    fn longest_kill_after_is_refused() {
        let (ttl, longest) = (Duration::from_secs(10), Some(Duration::MAX));
        for max_hold in [None, Some(Duration::ZERO), longest] {
            let (kind, signal) = (StoreKind::Etcd, Signal::TERM);
            let limits = Limits::new(kind, ttl, ttl * 17 / 30, signal, longest, max_hold);
            assert!(limits.is_err(), "{max_hold:?}");
        }
    }

    #[test]
    fn too_long_kill_after_is_refused_with_a_suggestion() {
        assert!(limits(StoreKind::Etcd, 10_000, Some(5_000)).is_ok());
        for (backend, kill_after) in
            [(StoreKind::Etcd, 6_000), (StoreKind::ZooKeeper, 5_000), (StoreKind::Etcd, 60_000)]
        {
            let error = limits(backend, 10_000, Some(kill_after)).expect_err("too long");
            let ttl = error.rsplit_once("--ttl ").expect("it says so").1.trim_end_matches('s');
            let ttl: u64 = ttl.parse().expect("a number");
            assert!(limits(backend, ttl * 1_000, Some(kill_after)).is_ok(), "{error}");
        }
    }
}
