//! The state of a node, and whether its replies count.

use std::{sync::Arc, time::Duration};

use super::node_clock::NodeClock;

/// The state of a node, for as long as the client lives.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) clock: NodeClock,
    /// The latest time, by our clock, when the connected process may have started.
    started: Option<Duration>,
    /// The id of the process.
    pub(super) run: Arc<str>,
    /// The longest TTL of any client, as far as is known.
    pub(super) longest: Duration,
    /// The reason why the node did not reply last.
    pub(super) trouble: Option<String>,
}

/// The reason why a node's replies do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoiled {
    /// The node started less than the longest TTL ago. It may have forgotten a client's lock.
    Restarted,
    /// The node's clock was set, so that keys may have expired early.
    ClockSet,
    /// The node is the same server as one listed before it, and each server has only one vote.
    Repeated,
}

impl NodeState {
    /// `longest`: the longest TTL that a client may have.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, ..Self::default() }
    }

    /// Notes a connection to a process that reports this uptime in whole seconds.
    pub(super) fn connected(&mut self, run: &str, uptime: Duration, answered: Duration) {
        if *self.run != *run {
            // Both ends of the uptime are rounded to seconds, so it may be a second less.
            let uptime = uptime.saturating_sub(Duration::from_secs(1));
            // A clock that was set while the node started makes the uptime too long. The former
            // process ran until its last reply, so the uptime of its successor is not trusted at
            // all.
            let is_first = self.run.is_empty();
            self.started = Some(if is_first { answered.saturating_sub(uptime) } else { answered });
            self.run = run.into();
        }
        self.trouble = None;
    }

    /// Returns why the node's replies do not count at this time. `longest`: the longest TTL of any
    /// client. `differs`: the node's clock differs from those of the others.
    pub(super) fn spoiled(
        &self,
        now: Duration,
        longest: Duration,
        differs: bool,
    ) -> Option<Spoiled> {
        if self.started.is_none_or(|started| now.saturating_sub(started) <= longest) {
            return Some(Spoiled::Restarted);
        }
        if self.clock.was_set(now, longest) || differs && !self.clock.is_watched(now, longest) {
            return Some(Spoiled::ClockSet);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_counts_a_ttl_after_its_start() {
        for (uptime, now, counts) in [
            (0, 100, false),
            (9, 101, false),
            (11, 100, false),
            (11, 101, true),
            (5_000, 100, true),
        ] {
            let mut node = NodeState::default();
            assert_eq!(node.spoiled(s(now), TTL, false), Some(Spoiled::Restarted));
            node.connected("a", s(uptime), s(100));
            assert_eq!(node.spoiled(s(now), TTL, false).is_none(), counts, "{uptime} {now}");
            assert!(node.spoiled(s(now), s(6_000), false).is_some(), "others have a longer TTL");
        }
    }

    #[test]
    fn a_new_connection_to_the_same_process_is_no_restart() {
        let mut node = NodeState::default();
        node.connected("a", s(50), s(100));
        // The node's clock was set back, and its uptime with it.
        node.connected("a", s(0), s(101));
        assert_eq!(node.spoiled(s(101), TTL, false), None);
        node.connected("b", s(0), s(101));
        assert_eq!(node.spoiled(s(101), TTL, false), Some(Spoiled::Restarted));
    }

    /// The node started with a clock that was an hour slow, and was set afterwards.
    #[test]
    fn uptime_of_restarted_node_is_ignored() {
        let mut node = NodeState::default();
        node.connected("a", s(50), s(100));
        assert_eq!(node.spoiled(s(101), TTL, false), None);
        node.connected("b", s(3_600), s(102));
        assert_eq!(node.spoiled(s(112), TTL, false), Some(Spoiled::Restarted));
        assert_eq!(node.spoiled(s(113), TTL, false), None);
    }

    #[test]
    fn changed_or_differing_clock_disqualifies_node() {
        let mut node = NodeState::default();
        node.connected("a", s(50), s(100));
        assert_eq!(node.spoiled(s(100), TTL, true), Some(Spoiled::ClockSet), "nobody watched it");
        for second in 100..=111 {
            node.clock.read(s(second + 50), s(second), s(second), TTL, TTL);
        }
        assert_eq!(node.spoiled(s(111), TTL, true), None);
        node.clock.read(s(5_000), s(112), s(112), TTL, TTL);
        assert_eq!(node.spoiled(s(112), TTL, false), Some(Spoiled::ClockSet));
        assert_eq!(node.spoiled(s(123), TTL, false), None);
    }
}
