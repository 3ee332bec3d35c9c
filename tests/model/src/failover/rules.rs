//! What keeps locks through a failover.

use crate::rule::rules;

rules! {
    AckedBeats "acked-beats" "A keepalive counts once n replicas have it.",
    AckedGrants "acked-grants" "What grants counts once n replicas have it.",
    AllReplicas "all-replicas" "All that may be promoted are counted.",
    SentSince "sent-since" "A keepalive counts from when it was sent.",
    SameServer "same-server" "What grants and what proves it come from one server.",
    EachTime "each-time" "Every request finds out that the server is another one.",
    Quarantine "quarantine" "Another server lets nobody in for a while.",
    WholeTtl "whole-ttl" "That is for the longest TTL.",
    OneTtl "one-ttl" "No client has a longer TTL than the others.",
    YoungEmpty "young-empty" "An empty server that was just started is such a one.",
    PromotedEmpty "promoted-empty" "So is an empty one that was a replica.",
    LostWrites "lost-writes" "A session that finds its writes missing is over.",
    ClockTokens "clock-tokens" "Tokens of another server go on from its clock.",
}
