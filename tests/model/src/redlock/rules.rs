//! The rules of Redlock.

use crate::rule::rules;

rules! {
    Majority "majority" "A lock is held if more than half of the nodes have it.",
    Raise "raise" "A majority raises its counter before a lock is granted.",
    ReadFirst "read-first" "The token is above all counters, not each node's own count.",
    OnlyMine "only-mine" "A node raises its counter only for the client whose value it has.",
    InTime "in-time" "No grant after the deadline.",
    SentSince "sent-since" "A renewal counts from when it was sent.",
    OneSending "one-sending" "A renewal counts only the replies to one request.",
    Rates "rates" "The deadline allows for clocks that run faster.",
    Restarted "restarted" "A node that started less than a TTL ago does not count.",
    ClockSet "clock-set" "A node whose clock was set does not count.",
    Clocks "clocks" "Tokens are above the nodes' clocks, too.",
    ReleaseAll "release-all" "A lock is released on all nodes, including those without a reply.",
}
