//! The rules that preserve locks through a failover.

use crate::rule::rules;

rules! {
    AckedBeats "acked-beats" "A keepalive counts once n replicas have it.",
    AckedGrants "acked-grants" "A granting reply counts once n replicas have its state.",
    AllReplicas "all-replicas" "All replicas that may be promoted count.",
    SentSince "sent-since" "A keepalive counts from when it was sent.",
    SameServer "same-server" "A grant and its keepalive come from one server.",
    EachTime "each-time" "Every request detects a different server.",
    Quarantine "quarantine" "A different server grants nothing for a while.",
    WholeTtl "whole-ttl" "The quarantine takes the longest TTL.",
    OneTtl "one-ttl" "No client has a longer TTL than the others.",
    YoungEmpty "young-empty" "An empty server that has just started is quarantined.",
    PromotedEmpty "promoted-empty" "An empty server that was a replica is quarantined.",
    LostWrites "lost-writes" "A session whose writes are missing has ended.",
    ClockTokens "clock-tokens" "Tokens of a different server continue from its clock.",
}
