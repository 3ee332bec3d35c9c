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
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
pub(crate) fn id() -> i64 {
    fastrand::i64(1..)
}

/// 128 bits that nobody can guess.
pub(crate) fn bits() -> [u8; 16] {
    uuid::Uuid::new_v4().into_bytes()
}
