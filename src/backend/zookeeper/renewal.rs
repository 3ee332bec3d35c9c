//! For how long a write renews a session.

use std::time::Duration;

/// What a write that came back proves: how long the leader keeps the session, counted from when the
/// write was sent.
///
/// Not the whole timeout T. A write sent to a follower is checked against the session at the leader
/// (`PrepRequestProcessor`, `SessionTrackerImpl.checkSession`) but does not renew it there:
/// `LeaderZooKeeperServer.submitLearnerRequest` skips the `touch` of
/// `ZooKeeperServer.submitRequestNow`. What a follower has heard of its sessions it tells in its
/// answers to the leader's pings, every half tick (`Leader.lead`, `LearnerHandler` case `PING`).
/// Should it be cut off right after our write, the leader last heard of what we sent up to half a
/// tick and one pause between our requests before. Half a tick is at most T/4, as the servers grant
/// no less than two ticks. A pause is at most T/8 where answers come soon (`ZooKeeper::patience`).
/// So 5/8 T are certain; distlock takes off a tenth of what this function returns, and 9/10 of 2/3
/// is less.
///
/// Where answers are slow, a pause lasts a round trip, as the crate sends no ping while one is
/// unanswered
/// (<https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/mod.rs#L581>): up to
/// T/4, when it leaves the server. But a pause of less than half a tick falls into one report, and
/// adds nothing to it; so half a tick and a longer pause come to 0.4 T at most. Only near T = 2.5
/// ticks, with answers 0.2 T late one way, they may come to 0.425 T by this reckoning. A process
/// that stood still has made a longer pause: `process_stall.rs` tells what its writes prove.
pub(super) fn renewed_for(ttl: Duration) -> Duration {
    ttl * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_ends_before_the_leader_can_free_the_session() {
        let ttl = Duration::from_secs(40);
        assert!(renewed_for(ttl) * 9 / 10 + ttl / 4 + ttl / 8 < ttl);
    }
}
