//! All that is in a queue.

use std::{sync::Arc, time::SystemTime};

use super::entry::{Entry, Watch};

/// What a listing is to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The values, and since when the keys are there: on ZooKeeper one more request for each.
    pub(crate) values: bool,
    /// A watch that begins with the listing.
    pub(crate) watch: bool,
    /// What is true now, and not what a server that lags behind takes for it. Else it is at least
    /// as new as all that this session was told.
    pub(crate) fresh: bool,
    /// A part that is enough: a store that finds it sooner may list that alone.
    pub(crate) part: Option<Part>,
}

/// What decides about one entry, and that entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
pub(crate) struct Part {
    /// The revision of the entry; `None`: one that would join now.
    pub(crate) own: Option<u64>,
    pub(crate) which: Which,
}

/// Which of the entries ahead decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The nearest one; for one that would join now, some of the last ones.
    Nearest,
    /// The same of those that are not labelled as readers'.
    NearestWriter,
    /// All of them, by their labels alone: whose they are, in what order they stand and whether
    /// they seem dead makes no difference.
    Labels,
}

/// What is in a queue.
#[derive(Default)]
pub(crate) struct Listing {
    /// Those who stand in it, the first one first. Other clients' keys are among them, if they look
    /// like waiters.
    pub(crate) members: Vec<Member>,
    /// The names (what follows the slash) of keys that belong to no session: see `Store::commit`.
    pub(crate) notes: Vec<Box<str>>,
    /// Ends when anything in the queue may have changed since, no matter by whom: a key came, went
    /// or, where the store tells that, was written to.
    pub(crate) watch: Option<Watch>,
    /// The keys of members whose sessions seem over, by a clock that this client has not watched
    /// for long enough to remove them; and of those that stand there while the store may not know
    /// all locks that were granted before.
    pub(crate) seem_dead: Vec<Arc<str>>,
    /// Of the members only the labels count, and who seems dead is not looked at.
    pub(crate) labels_only: bool,
}

/// One who stands in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) entry: Entry,
    /// What the key says of itself; `None` for another client's, which says nothing that is
    /// understood here.
    pub(crate) label: Option<Box<str>>,
    /// If it was asked for.
    pub(crate) detail: Option<Detail>,
}

/// What a listing with values tells of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// What was written into it: the `value` of `enqueue` or `rewrite`.
    pub(crate) value: Vec<u8>,
    /// Counts its writes: (the key's) later values have higher ones.
    pub(crate) version: u64,
    /// When it was created, where that is known: by the server's clock on ZooKeeper, its owner's
    /// otherwise.
    pub(crate) since: Option<SystemTime>,
    /// It belongs to this session.
    pub(crate) own: bool,
}
