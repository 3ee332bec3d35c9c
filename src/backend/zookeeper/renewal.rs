//! How long a write renews a session.

use std::time::Duration;

/// Returns how long the leader certainly keeps the session, counted from when a confirmed write was
/// sent.
///
/// It is not the whole timeout T. The leader checks the session of a write that was sent to a
/// follower (`PrepRequestProcessor`, `SessionTrackerImpl.checkSession`), but does not renew it:
/// `LeaderZooKeeperServer.submitLearnerRequest` skips the `touch` of
/// `ZooKeeperServer.submitRequestNow`. A follower reports its sessions in its replies to the
/// leader's pings, every half tick (`Leader.lead`, `LearnerHandler` case `PING`).
///
/// Suppose that the follower is cut off right after our write. Then the last request that the
/// leader knows of may be older than the write by half a tick and one pause between our requests.
/// Half a tick is at most T/4, because the servers grant at least two ticks. A pause is at most T/8
/// if replies are fast (`ZooKeeper::patience`). So 5/8 T are certain. distlock subtracts a tenth
/// from what this function returns, and 9/10 of 2/3 is less.
///
/// If replies are slow, a pause lasts a round trip, because the crate sends no ping while one is
/// unanswered
/// (<https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/mod.rs#L581>). A
/// pause lasts up to T/4, when the crate leaves the server. But a pause of less than half a tick
/// falls within one report, and adds nothing to it. So half a tick and a longer pause add up to at
/// most 0.4 T. Only near T = 2.5 ticks, with replies 0.2 T late one way, they may add up to 0.425 T
/// by this calculation. A stalled process has made a longer pause: `process_stall.rs` documents
/// what its writes prove.
///
/// An observer of a follower (`observerMasterPort`) reports to that follower, which reports to the
/// leader (`ObserverMaster.touch`). That takes up to a tick instead of half of one. It is at most
/// T/4 only if T is four ticks or more, which `docs/ops/ttl.md` demands.
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
