//! Labels and random numbers of a run's own containers.

use std::hash::{BuildHasher, RandomState};

/// Returns the label of a run's containers, by which docker/down removes those of a killed run.
pub(super) fn label() -> String {
    let project = std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "distlock".into());
    format!("--label=com.docker.compose.project={project}")
}

/// Returns a generator that does not use the run's seed, which concurrent runs may share.
pub(super) fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(RandomState::new().hash_one(std::process::id()))
}
