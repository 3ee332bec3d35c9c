//! The seam to the machine's randomness.

/// A number from 0 to 1, which is not among them.
pub(crate) fn fraction() -> f64 {
    fastrand::f64()
}

/// A number from 0 to `below`, which is not among them.
#[cfg(feature = "etcd")]
pub(crate) fn below(below: usize) -> usize {
    fastrand::usize(..below)
}

/// A number that nobody else has drawn, as good as certainly.
#[allow(dead_code)] // Without a store that wants one.
pub(crate) fn id() -> i64 {
    // Of the system: a fork copies the state of any other source.
    let (high, low) = uuid::Uuid::from_bytes(bits()).as_u64_pair();
    // Each has bits that say of what kind it is.
    ((high ^ low.rotate_left(32)) as i64 & i64::MAX).max(1)
}

/// 128 bits that nobody can guess.
pub(crate) fn bits() -> [u8; 16] {
    uuid::Uuid::new_v4().into_bytes()
}

#[cfg(all(test, unix, feature = "redis"))]
mod tests;
