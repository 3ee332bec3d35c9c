//! How current a read must be.

use etcd_client::GetOptions;

/// How current a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Served from the member's own state, without a request to the leader. An older state is at
    /// worst too cautious: no client can join ahead of an existing key, and a deleted key stays
    /// deleted.
    Local,
    /// Linearizable: the leader confirms it. A member whose disk hangs cannot serve it.
    Confirmed,
}

impl Reading {
    pub(super) fn of(self, options: GetOptions) -> GetOptions {
        match self {
            Self::Local => options.with_serializable(),
            Self::Confirmed => options,
        }
    }
}
