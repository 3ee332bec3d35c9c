//! Whether a series of samples grows.

use distlock_testkit::median::median;
use serde::Serialize;

/// The first part of a run, in which caches fill and pools come to their size.
const WARM_UP: f64 = 0.2;

/// So many medians are made of the rest: each is of enough samples that no single one counts.
const MEDIANS: usize = 12;

/// What is measured, and how much more of it there may be at the end than after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) tolerance: f64,
}

/// A leak of one thing for each lost session, the rarest event of a soak, is 24 of them in half an
/// hour; all tolerances are below what that comes to. Memory is taken in kilobytes: the allocator's
/// arenas go on filling for a while, and a leak of 100 bytes for each of the 60,000 locks of half
/// an hour is 6,000 of them.
pub(crate) const MEASURES: [Measure; 7] = [
    Measure { name: "memory", unit: "kB", tolerance: 3000.0 },
    Measure { name: "threads", unit: "", tolerance: 1.0 },
    Measure { name: "file descriptors", unit: "", tolerance: 4.0 },
    Measure { name: "tasks", unit: "", tolerance: 8.0 },
    Measure { name: "watches", unit: "on the servers", tolerance: 6.0 },
    Measure { name: "sessions", unit: "on the servers", tolerance: 2.0 },
    Measure { name: "keys", unit: "on the servers", tolerance: 6.0 },
];

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// The first and the last median.
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// How much it grew from the one to the other, by the median slope (Theil-Sen): what a single
    /// burst does to a mean does not count.
    pub(crate) growth: f64,
    pub(crate) tolerance: f64,
    pub(crate) flat: bool,
}

/// Judges samples taken at even intervals.
pub(crate) fn judge(samples: &[f64], tolerance: f64) -> Option<Verdict> {
    let rest = &samples[(samples.len() as f64 * WARM_UP) as usize..];
    if rest.len() < 2 * MEDIANS {
        return None;
    }
    let medians: Vec<f64> = (0..MEDIANS)
        .map(|n| &rest[n * rest.len() / MEDIANS..(n + 1) * rest.len() / MEDIANS])
        .map(|part| median(part.iter().copied()))
        .collect::<Option<_>>()?;
    let pairs = (0..MEDIANS).flat_map(|from| (from + 1..MEDIANS).map(move |to| (from, to)));
    let slopes = pairs.map(|(from, to)| (medians[to] - medians[from]) / (to - from) as f64);
    let growth = median(slopes)? * (MEDIANS - 1) as f64;
    let (first, last) = (medians[0], medians[MEDIANS - 1]);
    Some(Verdict { first, last, growth, tolerance, flat: growth <= tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(samples: impl Iterator<Item = f64>) -> bool {
        judge(&samples.collect::<Vec<_>>(), 8.0).expect("there are enough").flat
    }

    /// Between 0 and 15, without a trend.
    fn noise(n: u32) -> f64 {
        f64::from(n.wrapping_mul(2_654_435_761) >> 28)
    }

    #[test]
    fn what_stays_is_flat() {
        assert!(flat((0..360).map(|_| 50.0)));
        assert!(flat((0..360).map(|n| 50.0 + noise(n))));
        // It falls, it grows in the warm-up only, it comes and goes with each minute's fault.
        assert!(flat((0..360).map(|n| 500.0 - f64::from(n))));
        assert!(flat((0..360).map(|n| f64::from(n.min(60)))));
        assert!(flat((0..360).map(|n| 50.0 + f64::from(n % 12))));
        assert!(flat((0..360).map(|n| if n == 300 { 5000.0 } else { 50.0 })));
    }

    #[test]
    fn what_grows_is_reported() {
        // One in a minute, one in a minute beneath noise, and a step for each.
        assert!(!flat((0..360).map(|n| 50.0 + f64::from(n) / 12.0)));
        assert!(!flat((0..360).map(|n| 50.0 + noise(n) + f64::from(n) / 12.0)));
        assert!(!flat((0..360).map(|n| 50.0 + f64::from(n / 12))));
        assert!(!flat((0..360).map(|n| 50.0 + f64::from(n % 12) + f64::from(n) / 12.0)));
    }

    #[test]
    fn too_few_samples_prove_nothing() {
        assert_eq!(judge(&[1.0; 20], 1.0), None);
    }
}
