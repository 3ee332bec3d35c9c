//! What is told of, in words that do not depend on who listens.

use crate::lost::LostReason;

/// Makes a label of a lock's name: how many there are is the user's choice.
pub(crate) type Label = fn(&str) -> String;

/// As what a lock is held.
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
    /// The client was made.
    First,
    /// There was none any more that lives: for this reason, if one is known.
    Replaced(Option<LostReason>),
    /// The others have no room.
    Full,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was held until it was let go of, by the store's word; or passed on within the client.
    Released,
    Lost(LostReason),
    /// The store's word never came.
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

/// In one word.
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
