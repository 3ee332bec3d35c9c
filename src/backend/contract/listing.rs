//! The contents of a queue.

use std::{sync::Arc, time::SystemTime};

use super::entry::{Entry, Watch};

/// What a listing has to return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The values and the creation times of keys. On ZooKeeper they cost one more request per key.
    pub(crate) values: bool,
    /// A watch that begins with the listing.
    pub(crate) watch: bool,
    /// The current state, and not that of a server that lags behind. Otherwise the state is at
    /// least as new as all replies to this session.
    pub(crate) fresh: bool,
    /// A part that is sufficient. A store that finds it faster may list only that part.
    pub(crate) part: Option<Part>,
}

/// One entry, and the entries that decide about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
pub(crate) struct Part {
    /// The revision of the entry. `None`: an entry that would join now.
    pub(crate) own: Option<u64>,
    pub(crate) which: Which,
}

/// The entries ahead that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The nearest one. For an entry that would join now, some of the last ones.
    Nearest,
    /// The nearest one that is not labelled as a reader. For an entry that would join now, some of
    /// the last ones of that kind.
    NearestWriter,
    /// All of them, by their labels only. Their owners, their order and whether their sessions seem
    /// to have expired make no difference.
    Labels,
}

/// The contents of a queue.
#[derive(Default)]
pub(crate) struct Listing {
    /// The members of the queue, in its order. Other clients' keys are included if they look like
    /// waiters.
    pub(crate) members: Vec<Member>,
    /// The names (the part after the slash) of keys that belong to no session: see
    /// `Extras::commit`.
    pub(crate) notes: Vec<Box<str>>,
    /// Completes when anything in the queue may have changed since the listing, by any client: a
    /// key was added or deleted, or written to if the store reports that.
    pub(crate) watch: Option<Watch>,
    /// The keys of members whose sessions seem to have expired, by a clock that this client has not
    /// observed long enough to remove them. Also the keys that remain while the store may not know
    /// all earlier grants.
    pub(crate) seem_dead: Vec<Arc<str>>,
    /// Only the members' labels are valid, and `seem_dead` was not determined.
    pub(crate) labels_only: bool,
}

/// A member of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) entry: Entry,
    /// The key's label; `None` for another client's key, which has no label in our format.
    pub(crate) label: Option<Box<str>>,
    /// Present if it was requested.
    pub(crate) detail: Option<Detail>,
}

/// The details of a key in a listing with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// The key's value, from `enqueue` or `rewrite`.
    pub(crate) value: Vec<u8>,
    /// A number that rises with each write to the key.
    pub(crate) version: u64,
    /// When the key was created by the server's clock, if the store records that. On etcd and in
    /// memory, the value has the time of the owner's clock instead.
    pub(crate) since: Option<SystemTime>,
    /// The key belongs to this session.
    pub(crate) own: bool,
}
