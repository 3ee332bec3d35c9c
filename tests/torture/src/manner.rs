//! The ways to ask for a lock.

use serde::{Deserialize, Serialize};

/// How a lock was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Manner {
    Lock,
    TryLock,
    LockTimeout,
    /// `lock()`, whose future is dropped before it may be done.
    Dropped,
    /// A guarded write.
    Put,
    Proclaim,
    Downgrade,
    /// As a waiter of another library.
    Foreign,
}
