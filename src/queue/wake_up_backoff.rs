//! Keeps a waiter from spinning on needless wake-ups.

use std::time::Duration;

use crate::runtime::{
    backoff,
    clock::{Instant, sleep},
};

/// After this time without a wake-up, the count of needless ones starts again.
const CALM: Duration = Duration::from_secs(1);

/// Counts needless wake-ups.
#[derive(Default)]
pub(crate) struct WakeUpBackoff {
    idle: u32,
}

impl WakeUpBackoff {
    /// Pauses after a needless wake-up from a wait that began at `began`.
    ///
    /// The first wake-up in a row causes no pause; the pauses of later ones grow.
    pub(crate) async fn idle(&mut self, began: Instant) {
        self.idle = if began.elapsed() > CALM { 0 } else { self.idle + 1 };
        if self.idle > 1 {
            sleep(backoff(self.idle - 2)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pause in milliseconds after a wait of this length.
    async fn pause(backoff: &mut WakeUpBackoff, waited: Duration) -> u128 {
        let began = Instant::now();
        sleep(waited).await;
        let woken = Instant::now();
        backoff.idle(began).await;
        woken.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_spurious_wake_ups_cause_backoff() {
        let mut backoff = WakeUpBackoff::default();
        assert_eq!(pause(&mut backoff, Duration::ZERO).await, 0, "the first time");
        for most in [20, 40, 80, 160] {
            let pause = pause(&mut backoff, CALM / 2).await;
            assert!((most / 2..=most + 1).contains(&pause), "{pause} of {most}");
        }
        assert!(pause(&mut backoff, CALM).await > 0, "it has to be longer");
        assert_eq!(pause(&mut backoff, CALM * 2).await, 0, "after a calm");
        assert_eq!(pause(&mut backoff, Duration::ZERO).await, 0, "the first time since");
        assert!(pause(&mut backoff, Duration::ZERO).await > 0);
    }
}
