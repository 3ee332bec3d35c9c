//! Percentiles, and the format of figures.

use distlock_testkit::median::median;

/// The value below which this share of the values lies.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

/// Median, minimum and maximum.
pub(crate) fn spread(values: &[f64]) -> Option<(f64, f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some((median(values.iter().copied())?, least, most))
}

/// The median of whole numbers.
pub(crate) fn middle(values: &[u64]) -> Option<f64> {
    median(values.iter().map(|value| *value as f64))
}

/// With three significant digits.
pub(crate) fn round(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
