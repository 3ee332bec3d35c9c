//! Remembers directories, so that their nodes have names that are never reused.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Weak},
};

use tokio::sync;

use super::names;
use crate::runtime::mutex::Mutex;

/// How many directories are remembered. When there are more, all are forgotten. That costs the next
/// lock of each directory one list, if it is contended.
const REMEMBERED: usize = 16 * 1024;

/// The directories' tags, for all sessions of a client.
///
/// A directory's tag is its czxid. A directory that was removed and created again has another one,
/// although its sequence numbers begin at 0 again. So each name of tag and number is used once,
/// whatever labels its node has in turn (`store/extras.rs`). A client that deletes, reads or
/// watches a node by its name, however late, refers to the node that it knows, or to none.
///
/// The tags remembered here are only guesses. The reply to a create has the true one, and a node
/// with a wrong tag is deleted before it holds a place. So names of a former directory are reused,
/// but only for nodes that hold no place. A release marker counts only in its own directory.
///
/// In a directory whose numbers are exhausted, no name with its tag is unique. There nodes have
/// random tags, as they have in an unknown directory. Each request has its own random tag, even for
/// the same ticket, because the earlier of two requests may be served last.
#[derive(Debug, Default)]
pub(super) struct Tags {
    hasher: RandomState,
    /// By the hash of the path. If two hashes collide, their guesses are wrong, which does no harm.
    known: Mutex<HashMap<u64, Directory>>,
    /// The locks of directories whose tags are being learned.
    learning: Mutex<HashMap<u64, Weak<sync::Mutex<()>>>>,
}

#[derive(Debug)]
struct Directory {
    czxid: i64,
    /// The release marker that was last read or written there: see `store/leave.rs`.
    mark: Option<Arc<str>>,
}

impl Tags {
    pub(super) fn get(&self, dir: &str) -> Option<i64> {
        self.known.lock().get(&self.hasher.hash_one(dir)).map(|known| known.czxid)
    }

    /// Returns the name of the last holder that is known to have left.
    pub(super) fn marked(&self, dir: &str) -> Option<Arc<str>> {
        self.known.lock().get(&self.hasher.hash_one(dir))?.mark.clone()
    }

    /// Remembers a release marker, if it belongs to the known directory.
    pub(super) fn mark(&self, dir: &str, name: &str) {
        if let Some(known) = self.known.lock().get_mut(&self.hasher.hash_one(dir))
            && names::is_mark_in(name, known.czxid)
        {
            known.mark = Some(name.into());
        }
    }

    pub(super) fn learn(&self, dir: &str, czxid: i64) {
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let known =
            known.entry(self.hasher.hash_one(dir)).or_insert(Directory { czxid, mark: None });
        if known.czxid != czxid {
            *known = Directory { czxid, mark: None };
        }
    }

    /// Returns the lock that a caller holds while it learns a directory's tag.
    ///
    /// The other callers wait. Without it, hundreds of clients that join an unknown queue at once
    /// would have to list each other.
    pub(super) fn turn(&self, dir: &str) -> Arc<sync::Mutex<()>> {
        let mut learning = self.learning.lock();
        let hash = self.hasher.hash_one(dir);
        if let Some(turn) = learning.get(&hash).and_then(Weak::upgrade) {
            return turn;
        }
        if learning.len() >= 64 {
            learning.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        learning.insert(hash, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_tags_are_bounded() {
        let tags = Tags::default();
        for number in 0..REMEMBERED * 2 {
            tags.learn(&format!("/ns/{number}"), 7);
            assert_eq!(tags.get(&format!("/ns/{number}")), Some(7));
        }
        assert!(tags.known.lock().len() <= REMEMBERED);
        tags.learn("/ns/again", 1);
        tags.learn("/ns/again", 2);
        assert_eq!((tags.get("/ns/again"), tags.get("/ns/never")), (Some(2), None));
    }

    #[test]
    fn marks_of_former_directories_are_not_passed_on() {
        let tags = Tags::default();
        let marked = || tags.marked("/ns/a").as_deref().map(str::to_owned);
        tags.mark("/ns/a", "2a-lock-0000000007");
        assert_eq!(marked(), None, "of a directory that is not known");
        tags.learn("/ns/a", 0x2a);
        tags.mark("/ns/a", "2a-lock-0000000007");
        assert_eq!(marked().as_deref(), Some("2a-lock-0000000007"));
        tags.learn("/ns/a", 0x2b);
        assert_eq!(marked(), None);
        // A holder of the former directory releases its lock late.
        tags.mark("/ns/a", "2a-lock-0000000008");
        assert_eq!(marked(), None);
        tags.mark("/ns/a", "0f0e8a5e8b8d4a9e-lock-0000000001");
        assert_eq!(marked().as_deref(), Some("0f0e8a5e8b8d4a9e-lock-0000000001"));
    }

    #[test]
    fn tag_is_learned_by_one_request_at_a_time() {
        let tags = Tags::default();
        let turn = tags.turn("/ns/a");
        assert!(Arc::ptr_eq(&turn, &tags.turn("/ns/a")));
        assert!(!Arc::ptr_eq(&turn, &tags.turn("/ns/b")));
        for number in 0..1000 {
            tags.turn(&format!("/ns/{number}"));
        }
        assert!(tags.learning.lock().len() <= 64, "those who are done are forgotten");
        assert!(Arc::ptr_eq(&turn, &tags.turn("/ns/a")));
    }
}
