//! The ways to acquire a lock.

use serde::{Deserialize, Serialize};

/// How a lock was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Manner {
    Lock,
    TryLock,
    LockTimeout,
    /// `lock()` whose future may be dropped before it is done.
    Dropped,
    /// A guarded write.
    Put,
    Proclaim,
    Downgrade,
    /// As another library's waiter.
    Foreign,
}
