//! What is known of a node, and whether what it says counts.

use std::time::Duration;

use super::node_clock::NodeClock;

/// What is known of a node, as long as the client lives.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) clock: NodeClock,
    /// When the process that we are connected to was started, at the latest, by our clock.
    started: Option<Duration>,
    /// Which process it is.
    pub(super) run: String,
    /// The longest TTL that any client has, for all that is known.
    pub(super) longest: Duration,
    /// Why it did not answer last.
    pub(super) trouble: Option<String>,
}

/// Why the answers of a node do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoiled {
    /// It was started less than the longest TTL ago: it may have forgotten somebody's lock.
    Restarted,
    /// Its clock was set, so that keys may have ended before their time.
    ClockSet,
}

impl NodeState {
    /// `longest`: the longest TTL that a client may have.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, ..Self::default() }
    }

    /// A connection was made to a process that says that it runs for so many whole seconds.
    pub(super) fn connected(&mut self, run: &str, uptime: Duration, answered: Duration) {
        if self.run != run {
            // Both ends of that time are cut to seconds, so it may be a second less.
            let uptime = uptime.saturating_sub(Duration::from_secs(1));
            // A clock that was set while the node started makes that time too long. The former
            // process was there as long as it answered: with it, none of that time is believed.
            let is_first = self.run.is_empty();
            self.started = Some(if is_first { answered.saturating_sub(uptime) } else { answered });
            run.clone_into(&mut self.run);
        }
        self.trouble = None;
    }

    /// Whether what it says now does not count, and why. `longest`: the longest TTL of any client.
    /// `differs`: its clock is not the others'.
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
        // Its clock was set back, and so was its uptime.
        node.connected("a", s(0), s(101));
        assert_eq!(node.spoiled(s(101), TTL, false), None);
        node.connected("b", s(0), s(101));
        assert_eq!(node.spoiled(s(101), TTL, false), Some(Spoiled::Restarted));
    }

    /// It was started with a clock that is an hour behind, which was then set.
    #[test]
    fn uptime_of_a_restarted_node_is_not_believed() {
        let mut node = NodeState::default();
        node.connected("a", s(50), s(100));
        assert_eq!(node.spoiled(s(101), TTL, false), None);
        node.connected("b", s(3_600), s(102));
        assert_eq!(node.spoiled(s(112), TTL, false), Some(Spoiled::Restarted));
        assert_eq!(node.spoiled(s(113), TTL, false), None);
    }

    #[test]
    fn a_clock_that_was_set_or_differs_spoils() {
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
