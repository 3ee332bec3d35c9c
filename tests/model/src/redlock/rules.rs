//! What Redlock obeys.

use crate::rule::rules;

rules! {
    Majority "majority" "A lock is had where more than half of the nodes have it.",
    Raise "raise" "A majority raises its counter before a lock is granted.",
    ReadFirst "read-first" "The token is above all counters, not what each node counts by itself.",
    OnlyMine "only-mine" "A node raises its counter for the one whose value it has.",
    InTime "in-time" "No grant after the deadline.",
    SentSince "sent-since" "A renewal counts from when it was sent.",
    OneSending "one-sending" "A renewal counts by the answers to one sending.",
    Rates "rates" "The deadline allows for clocks that run faster.",
    Restarted "restarted" "A node that was started less than a TTL ago does not count.",
    ClockSet "clock-set" "Nor does one whose clock was set.",
    Clocks "clocks" "Tokens are above the nodes' clocks, too.",
    ReleaseAll "release-all" "A lock is given back on all nodes, also on those that were silent.",
}
