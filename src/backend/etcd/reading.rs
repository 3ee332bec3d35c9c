//! How current a read has to be.

use etcd_client::GetOptions;

/// How a read is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// By what the member has: no client can get in front of a key, and what was deleted stays so,
    /// so that an older state is at worst too cautious. It spares the question to the leader.
    Local,
    /// As of now, which the leader confirms. A member whose disk hangs cannot serve it.
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
