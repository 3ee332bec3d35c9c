//! A lock that is held.

use std::sync::Arc;

use super::attempt::Attempt;
use crate::session::own_keys::OwnKey;

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) attempt: Attempt,
    own: Arc<OwnKey>,
}

impl Hold {
    pub(crate) fn new(attempt: Attempt, own: Arc<OwnKey>) -> Self {
        Self { attempt, own }
    }

    pub(crate) fn own_key(&self) -> &OwnKey {
        &self.own
    }
}
