//! The values of labels and attributes, for metrics and traces.

use crate::lost::LostReason;

/// A function that returns the metric label for a lock's name. The user determines how many labels
/// there are.
pub(crate) type Label = fn(&str) -> String;

/// The primitive as which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    Mutex,
    Reader,
    Writer,
    Semaphore,
    Election,
}

/// Why a session was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is the client's first session.
    First,
    /// No session was alive; the last one was lost for this reason, if known.
    Replaced(Option<LostReason>),
    /// The other sessions have no room.
    Full,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was released, as the store confirmed, or handed over within the client.
    Released,
    Lost(LostReason),
    /// The store never confirmed the release.
    Unknown,
}

impl Primitive {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Semaphore => "semaphore",
            Self::Election => "election",
        }
    }
}

impl Opened {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Replaced(_) => "replaced",
            Self::Full => "full",
        }
    }
}

impl Ended {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Lost(_) => "lost",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns the reason as one word.
pub(super) fn reason(lost: LostReason) -> &'static str {
    match lost {
        LostReason::DeadlinePassed => "deadline_passed",
        LostReason::SessionExpired => "session_expired",
        LostReason::Evicted => "evicted",
        LostReason::ClientClosed => "client_closed",
        LostReason::KeeperStopped => "keeper_stopped",
        LostReason::Forked => "forked",
        LostReason::HeldTooLong => "held_too_long",
        LostReason::Released => "released",
    }
}
