//! Decides whether a series of samples grows.

use distlock_testkit::median::median;
use serde::Serialize;

/// The first part of a run, in which caches and pools fill.
const WARM_UP: f64 = 0.2;

/// The number of medians of the rest. Each covers enough samples to ignore outliers.
const MEDIANS: usize = 12;

/// A measure, and how much it may grow after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) tolerance: f64,
}

/// The measures and their tolerances.
///
/// A leak of one item per lost session, the rarest event of a soak, is 24 items in half an hour.
/// All tolerances are below that. Memory is in kilobytes, since the allocator's arenas keep filling
/// for a while. A leak of 100 bytes for each of the 60,000 locks of half an hour is 6,000 kB.
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
    /// The growth from the first to the last, by the median slope (Theil-Sen), which ignores single
    /// bursts.
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
        judge(&samples.collect::<Vec<_>>(), 8.0).expect("enough samples").flat
    }

    /// Between 0 and 15, without a trend.
    fn noise(n: u32) -> f64 {
        f64::from(n.wrapping_mul(2_654_435_761) >> 28)
    }

    #[test]
    fn constant_series_is_flat() {
        assert!(flat((0..360).map(|_| 50.0)));
        assert!(flat((0..360).map(|n| 50.0 + noise(n))));
        // It falls, it grows only in the warm-up, or it oscillates with each minute's fault.
        assert!(flat((0..360).map(|n| 500.0 - f64::from(n))));
        assert!(flat((0..360).map(|n| f64::from(n.min(60)))));
        assert!(flat((0..360).map(|n| 50.0 + f64::from(n % 12))));
        assert!(flat((0..360).map(|n| if n == 300 { 5000.0 } else { 50.0 })));
    }

    #[test]
    fn growing_series_is_reported() {
        // One per minute, one per minute with noise, and a step per minute.
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
