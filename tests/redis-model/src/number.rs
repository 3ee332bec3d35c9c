//! How the server writes and reads numbers.

/// The largest number below which every integer is exact.
const EXACT: f64 = 4_503_599_627_370_496.0;

/// Formats a number as replies and scripts' arguments have it: an integer without a point, any
/// other with the fewest digits that identify it.
pub(crate) fn written(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if number.fract() == 0.0 && number.abs() < EXACT {
        return format!("{number:.0}");
    }
    let size = number.abs();
    // Like `%.17g`: an exponent if the number is very large or small.
    if (1e-7..1e21).contains(&size) {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// Parses an integer.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    // No plus sign and no leading zeros.
    (number.to_string() == text).then_some(number)
}

/// Parses any number.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, size) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if matches!(size.to_ascii_lowercase().as_str(), "inf" | "infinity") {
        return Some(sign * f64::INFINITY);
    }
    let is_number = size.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let number: f64 = is_number.then(|| size.parse().ok())??;
    Some(sign * number)
}
