//! Random numbers of a run's own containers.

use std::hash::{BuildHasher, RandomState};

/// Returns a generator that does not use the run's seed, which concurrent runs may share.
pub(super) fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(RandomState::new().hash_one(std::process::id()))
}
