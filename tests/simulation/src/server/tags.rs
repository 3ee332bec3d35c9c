//! What clients of a store like ZooKeeper know about its directories, and how they treat names that
//! may be used again.
//!
//! A name is a tag and a number. The tag is the directory's; a client that does not know the
//! directory uses a tag that no other request has. A client may know a former directory: then it
//! deletes its node again. An overflowing counter gives every key the same number.

use std::{collections::BTreeMap, sync::Arc};

/// The highest number of a directory, which it repeats from then on.
pub(crate) const LAST: u64 = i32::MAX as u64;

/// The length of a request's tag. Directory tags are shorter.
const REQUEST: usize = 16;

/// What each process knows about each directory.
#[derive(Debug, Default)]
pub(crate) struct Tags(BTreeMap<(usize, Arc<str>), Known>);

#[derive(Clone, Debug)]
struct Known {
    czxid: u64,
    /// The name of the last holder that is known to have left.
    mark: Option<Arc<str>>,
}

impl Tags {
    pub(crate) fn get(&self, process: usize, dir: &Arc<str>) -> Option<u64> {
        self.0.get(&(process, Arc::clone(dir))).map(|known| known.czxid)
    }

    /// Returns the marker that a joining client writes: the one that it knows of this directory.
    pub(crate) fn marked(&self, process: usize, dir: &Arc<str>) -> Option<Arc<str>> {
        let known = self.0.get(&(process, Arc::clone(dir)))?;
        known.mark.clone().filter(|mark| is_mark_in(mark, known.czxid))
    }

    pub(crate) fn learn(&mut self, process: usize, dir: &Arc<str>, czxid: u64) {
        let known = self.0.entry((process, Arc::clone(dir))).or_insert(Known { czxid, mark: None });
        if known.czxid != czxid {
            *known = Known { czxid, mark: None };
        }
    }

    pub(crate) fn mark(&mut self, process: usize, dir: &Arc<str>, name: &Arc<str>) {
        if let Some(known) = self.0.get_mut(&(process, Arc::clone(dir))) {
            known.mark = Some(Arc::clone(name));
        }
    }
}

/// The tag of the request that creates a key at this revision. It is made from the revision instead
/// of random bits, and is as unique.
pub(crate) fn of_request(revision: u64) -> String {
    format!("{revision:0REQUEST$x}")
}

/// Returns `true` if no other node can ever have this name, so that a node with it may stay in the
/// directory of this czxid.
pub(crate) fn is_unique(name: &str, czxid: u64) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let tag = name.split('-').next().unwrap_or_default();
    tag.len() == REQUEST || tag == format!("{czxid:x}") && !is_worn(name)
}

/// Returns `true` if a name stored in the directory of this czxid is of a holder that has left it.
pub(crate) fn is_mark_in(name: &str, czxid: u64) -> bool {
    is_unique(name, czxid) && !is_worn(name)
}

/// Returns `true` if the directory may give the number of this name to several keys.
pub(crate) fn is_worn(name: &str) -> bool {
    let number = name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| number >= LAST)
}
