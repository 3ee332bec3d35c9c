//! The rules of Redlock.

use crate::rule::rules;

rules! {
    Majority "majority" "A lock is held if more than half of the nodes have it.",
    Raise "raise" "A majority of the nodes raise their counters before a lock is granted.",
    ReadFirst "read-first" "The client reads the counters, and proposes a token above all of them.",
    OnlyMine "only-mine" "A node raises its counter only for the client whose value it has.",
    InTime "in-time" "No grant after the deadline.",
    SentSince "sent-since" "The deadline is measured from when the renewal was sent.",
    OneSending "one-sending" "A renewal combines only replies to the same request.",
    Rates "rates" "The deadline allows for nodes whose clocks run faster than the client's.",
    Restarted "restarted" "A node that started less than a TTL ago does not count.",
    ClockSet "clock-set" "A node whose clock was set does not count.",
    Clocks "clocks" "Tokens are above the nodes' clocks, too.",
    ReleaseAll "release-all" "A lock is released on all nodes, including those without a reply.",
}
