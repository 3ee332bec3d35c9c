//! How what a run has made is told from what others have.

use std::hash::{BuildHasher, RandomState};

/// Of what a run makes: so docker/down removes what one has left that was killed.
pub(super) fn label() -> String {
    let project = std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "distlock".into());
    format!("--label=com.docker.compose.project={project}")
}

/// Not by the run's seed, which others may have at the same time.
pub(super) fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(RandomState::new().hash_one(std::process::id()))
}
