//! The rules that preserve locks through a failover.

use crate::rule::rules;

rules! {
    AckedBeats "acked-beats" "A keepalive counts once n replicas have it.",
    AckedGrants "acked-grants" "A granting reply counts once n replicas have its state.",
    AllReplicas "all-replicas" "The number n includes every replica that may be promoted.",
    SentSince "sent-since" "The deadline is measured from when the keepalive was sent.",
    SameServer "same-server" "A grant and its keepalive come from one server.",
    EachTime "each-time" "Every request detects that the server is a different one.",
    Quarantine "quarantine" "A different server grants nothing for a while.",
    WholeTtl "whole-ttl" "The quarantine lasts for the longest TTL.",
    OneTtl "one-ttl" "No client has a longer TTL than the others.",
    YoungEmpty "young-empty" "An empty server that has just started is quarantined.",
    PromotedEmpty "promoted-empty" "An empty server that was a replica is quarantined.",
    LostWrites "lost-writes" "A session whose writes are missing has ended.",
    ClockTokens "clock-tokens" "A different server issues tokens that start at its own clock.",
}
