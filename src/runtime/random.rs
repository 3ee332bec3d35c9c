//! The seam to the machine's random numbers.

/// Returns a random number from 0 (inclusive) to 1 (exclusive).
pub(crate) fn fraction() -> f64 {
    fastrand::f64()
}

/// Returns a random number from 0 (inclusive) to `below` (exclusive).
pub(crate) fn below(below: usize) -> usize {
    fastrand::usize(..below)
}

/// Returns a random ID that is practically unique.
#[allow(dead_code)] // Used only by some stores.
pub(crate) fn id() -> i64 {
    // From the operating system: a fork copies the state of any other source.
    let (high, low) = uuid::Uuid::from_bytes(bits()).as_u64_pair();
    // Each half has fixed bits for the version and the variant.
    ((high ^ low.rotate_left(32)) as i64 & i64::MAX).max(1)
}

/// Returns 128 bits, of which 122 are random and cannot be guessed. The rest mark a UUID.
pub(crate) fn bits() -> [u8; 16] {
    uuid::Uuid::new_v4().into_bytes()
}

#[cfg(all(test, unix, feature = "redis"))]
mod tests;
