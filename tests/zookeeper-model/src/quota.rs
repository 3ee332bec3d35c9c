//! Quotas, which the server always counts, and enforces if configured (`Quotas`, `StatsTrack`).

use std::ops::AddAssign;

use crate::tree::{self, Node, Tree};

const LIMITS: &str = "zookeeper_limits";
const USED: &str = "zookeeper_stats";
const QUOTAS: &str = "/zookeeper/quota";

/// A number of nodes and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

impl Amount {
    pub(crate) fn of(length: usize) -> Self {
        Self { count: 1, bytes: i64::try_from(length).unwrap_or(i64::MAX) }
    }

    /// Returns the change of a node whose data is overwritten.
    pub(crate) fn difference(before: usize, after: usize) -> Self {
        Self { count: 0, bytes: Self::of(after).bytes - Self::of(before).bytes }
    }

    pub(crate) fn negated(self) -> Self {
        Self { count: -self.count, bytes: -self.bytes }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// Returns a number from a record such as `count=3,bytes=-1=;byteHardLimit=100`; -1 if missing.
fn number(node: &Node, name: &str) -> i64 {
    let text = String::from_utf8_lossy(node.data.as_deref().unwrap_or_default());
    let mut pairs = text.split([',', ';']).filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(key, _)| *key == name);
    found.and_then(|(_, value)| value.trim_end_matches('=').parse().ok()).unwrap_or(-1)
}

impl Tree {
    /// Returns the nearest node at or above this one that has a quota.
    fn quota_of(&self, path: &str) -> Option<String> {
        let mut above = path;
        while above != "/" {
            if self.get(&format!("{QUOTAS}{above}/{LIMITS}")).is_some() {
                return Some(above.to_owned());
            }
            above = tree::split(above).0;
        }
        None
    }

    /// Returns `true` if the quota allows the given addition.
    pub(crate) fn admits(&self, path: &str, more: Amount) -> bool {
        let notes = self.quota_of(path).and_then(|quota| {
            let note = |name| self.get(&format!("{QUOTAS}{quota}/{name}"));
            Some((note(LIMITS)?, note(USED)?))
        });
        let Some((limits, used)) = notes else { return true };
        [("count", "countHardLimit", more.count), ("bytes", "byteHardLimit", more.bytes)]
            .iter()
            .all(|(name, limit, more)| {
                let limit = number(limits, limit);
                *more == 0 || limit < 0 || number(used, name) + more <= limit
            })
    }

    /// Counts a change.
    pub(crate) fn count(&mut self, path: &str, more: Amount) {
        let Some(quota) = self.quota_of(path) else { return };
        let note = format!("{QUOTAS}{quota}/{USED}");
        let Some(node) = self.get(&note) else { return };
        let mut used = Amount { count: number(node, "count"), bytes: number(node, "bytes") };
        used += more;
        self.note(&note, used);
    }

    /// Fills the usage record of a new quota.
    pub(crate) fn recount(&mut self, path: &str) {
        let (place, name) = tree::split(path);
        let Some(quota) = place.strip_prefix(QUOTAS).filter(|_| name == USED) else { return };
        let below = format!("{quota}/");
        let own = self.nodes().filter(|(path, _)| *path == quota || path.starts_with(&below));
        let mut used = Amount::default();
        own.for_each(|(_, node)| used += Amount::of(node.length()));
        self.note(path, used);
    }

    fn note(&mut self, path: &str, used: Amount) {
        if let Some(node) = self.get_mut(path) {
            node.data = Some(format!("count={},bytes={}", used.count, used.bytes).into_bytes());
        }
    }
}
