//! What the clients of a store like ZooKeeper know of its directories, and what they make of names
//! that come again.
//!
//! A name is a tag and a number. The tag is that of the directory, or one that no other request has
//! where a client does not know the directory. What a client knows may be of a former directory;
//! then it takes its node back. A counter that is worn out gives the same number to all.

use std::{collections::BTreeMap, sync::Arc};

/// The highest number that a directory gives. From then on it gives no other.
pub(crate) const LAST: u64 = i32::MAX as u64;

/// How long a request's tag is. No directory's tag is that long.
const REQUEST: usize = 16;

/// What each process knows of each directory.
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

    /// What a client writes into a directory as it joins: the mark that it knows of this one.
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

/// The tag of the request that creates a key at this revision. It is drawn there rather than here,
/// and as little another request's.
pub(crate) fn of_request(revision: u64) -> String {
    format!("{revision:0REQUEST$x}")
}

/// Whether no other node can ever have this name, so that a node with it may stay in the directory
/// of this czxid.
pub(crate) fn is_unique(name: &str, czxid: u64) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let tag = name.split('-').next().unwrap_or_default();
    tag.len() == REQUEST || tag == format!("{czxid:x}") && !is_worn(name)
}

/// Whether a name that is stored in the directory of this czxid tells of a holder that has left it.
pub(crate) fn is_mark_in(name: &str, czxid: u64) -> bool {
    is_unique(name, czxid) && !is_worn(name)
}

/// Whether the directory may give this name's number to many.
pub(crate) fn is_worn(name: &str) -> bool {
    let number = name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| number >= LAST)
}
