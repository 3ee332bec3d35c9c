//! The server as a whole.

use std::time::Duration;

use etcd_client::proto::PbResponseHeader;

use crate::{
    keys::Keys,
    lease::{EXPIRY_INTERVAL, Leases},
    members::{CLUSTER, MEMBER, RAFT_TERM},
    watch::{SYNC_INTERVAL, Watches},
};

/// The configuration of the server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many operations a transaction may have (`--max-txn-ops`).
    pub max_txn_ops: usize,
    /// The server ignores the ids that clients choose for their watches, as `etcd grpc-proxy` does.
    pub numbers_watches: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_txn_ops: 128, numbers_watches: false }
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) settings: Settings,
    /// The time since its start.
    pub(crate) now: Duration,
    pub(crate) keys: Keys,
    pub(crate) leases: Leases,
    pub(crate) watches: Watches,
    /// The members whose NOSPACE alarm is raised.
    pub(crate) alarms: Vec<u64>,
    /// When it next checks for expired leases.
    expiry_due: Duration,
    /// When it next serves watches from a past revision.
    sync_due: Duration,
}

impl Model {
    /// Creates an empty server at time zero.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: Duration::ZERO,
            keys: Keys::new(),
            leases: Leases::default(),
            watches: Watches::default(),
            alarms: Vec::new(),
            expiry_due: EXPIRY_INTERVAL,
            sync_due: SYNC_INTERVAL,
        }
    }

    /// Sets the time since the start, and does everything that is due.
    pub fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
        if self.expiry_due <= self.now {
            self.expiry_due = self.now + EXPIRY_INTERVAL;
            self.revoke_expired();
        }
        if self.sync_due <= self.now {
            self.sync_due = self.now + SYNC_INTERVAL;
            self.sync_watches();
        }
    }

    /// Returns when [`set_time`](Self::set_time) has something to do next.
    #[must_use]
    pub fn due(&self) -> Duration {
        self.expiry_due.min(self.sync_due)
    }

    pub(crate) fn header(&self, revision: i64) -> Option<PbResponseHeader> {
        let (cluster_id, member_id, raft_term) = (CLUSTER, MEMBER, RAFT_TERM);
        Some(PbResponseHeader { cluster_id, member_id, revision, raft_term })
    }
}
