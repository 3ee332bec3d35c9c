//! Leases: their expiry, and the keys that they delete.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use etcd_client::proto::{
    PbEvent, PbLeaseGrantRequest, PbLeaseGrantResponse, PbLeaseKeepAliveRequest,
    PbLeaseKeepAliveResponse, PbLeaseLeasesResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse,
    PbLeaseStatus, PbLeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse,
};

use crate::{
    Model,
    error::{self, Result},
    keys::Span,
    write::Write,
};

/// In seconds: one and a half times the default election timeout, rounded up.
const MIN_TTL: i64 = 2;
const MAX_TTL: i64 = 9_000_000_000;
/// How often the server checks for expired leases (`revokeExpiredLeases`).
pub(crate) const EXPIRY_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
struct Lease {
    ttl: i64,
    expiry: Duration,
    keys: BTreeSet<Vec<u8>>,
}

impl Lease {
    fn renew(&mut self, now: Duration) {
        self.expiry = now + Duration::from_secs(self.ttl.unsigned_abs());
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    all: BTreeMap<i64, Lease>,
    /// The last id that the server chose.
    chosen: i64,
}

impl Leases {
    pub(crate) fn exists(&self, id: i64) -> bool {
        self.all.contains_key(&id)
    }

    pub(crate) fn attach(&mut self, id: i64, key: &[u8]) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.keys.insert(key.to_vec());
        }
    }

    pub(crate) fn detach(&mut self, id: i64, key: &[u8]) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    fn choose(&mut self) -> i64 {
        while self.chosen == 0 || self.exists(self.chosen) {
            self.chosen += 1;
        }
        self.chosen
    }

    /// Returns the ids by expiry.
    fn by_expiry(&self) -> Vec<(Duration, i64)> {
        let mut ids: Vec<_> = self.all.iter().map(|(id, lease)| (lease.expiry, *id)).collect();
        ids.sort_unstable();
        ids
    }
}

impl Model {
    /// Grants a lease.
    ///
    /// # Errors
    ///
    /// The TTL is too large, the id is taken, or the server is full.
    pub fn lease_grant(&mut self, request: &PbLeaseGrantRequest) -> Result<PbLeaseGrantResponse> {
        if self.is_full() {
            return Err(error::no_space());
        }
        let id = if request.id == 0 { self.leases.choose() } else { request.id };
        if request.ttl > MAX_TTL {
            return Err(error::ttl_too_large());
        }
        if self.leases.exists(id) {
            return Err(error::lease_exists());
        }
        let ttl = request.ttl.max(MIN_TTL);
        let mut lease = Lease { ttl, expiry: Duration::ZERO, keys: BTreeSet::new() };
        lease.renew(self.now);
        self.leases.all.insert(id, lease);
        let header = self.header(self.keys.revision);
        Ok(PbLeaseGrantResponse { header, id, ttl, error: String::new() })
    }

    /// Revokes a lease, and deletes its keys.
    ///
    /// # Errors
    ///
    /// There is no such lease.
    pub fn lease_revoke(
        &mut self,
        request: &PbLeaseRevokeRequest,
    ) -> Result<PbLeaseRevokeResponse> {
        let events = self.revoke(request.id).ok_or_else(error::lease_not_found)?;
        self.notify(&events);
        Ok(PbLeaseRevokeResponse { header: self.header(self.keys.revision) })
    }

    /// Returns the reply to a keepalive. A TTL of 0 means that the lease does not exist.
    pub fn lease_keep_alive(
        &mut self,
        request: &PbLeaseKeepAliveRequest,
    ) -> PbLeaseKeepAliveResponse {
        let id = request.id;
        let header = self.header(self.keys.revision);
        // The server replies once the lease is revoked.
        if self.leases.all.get(&id).is_some_and(|lease| lease.expiry <= self.now) {
            let events = self.revoke(id).unwrap_or_default();
            self.notify(&events);
        }
        let lease = self.leases.all.get_mut(&id);
        let ttl = lease.map_or(0, |lease| {
            lease.renew(self.now);
            lease.ttl
        });
        PbLeaseKeepAliveResponse { header, id, ttl }
    }

    /// Returns the remaining time of a lease in whole seconds; -1 if it does not exist.
    #[must_use]
    pub fn lease_time_to_live(
        &self,
        request: &PbLeaseTimeToLiveRequest,
    ) -> PbLeaseTimeToLiveResponse {
        let (header, id) = (self.header(self.keys.revision), request.id);
        let Some(lease) = self.leases.all.get(&id) else {
            return PbLeaseTimeToLiveResponse { header, id, ttl: -1, granted_ttl: 0, keys: vec![] };
        };
        let left = lease.expiry.saturating_sub(self.now).as_secs();
        let keys = if request.keys { lease.keys.iter().cloned().collect() } else { vec![] };
        let ttl = i64::try_from(left).unwrap_or(i64::MAX);
        PbLeaseTimeToLiveResponse { header, id, ttl, granted_ttl: lease.ttl, keys }
    }

    /// Returns all leases by expiry.
    #[must_use]
    pub fn lease_leases(&self) -> PbLeaseLeasesResponse {
        let ids = self.leases.by_expiry().into_iter();
        let leases = ids.map(|(_, id)| PbLeaseStatus { id }).collect();
        PbLeaseLeasesResponse { header: self.header(self.keys.revision), leases }
    }

    /// Revokes expired leases, each with its own revision.
    pub(crate) fn revoke_expired(&mut self) {
        let expired = self.leases.by_expiry().into_iter();
        for (_, id) in expired.take_while(|(expiry, _)| *expiry <= self.now).collect::<Vec<_>>() {
            let events = self.revoke(id).unwrap_or_default();
            self.notify(&events);
        }
    }

    fn revoke(&mut self, id: i64) -> Option<Vec<PbEvent>> {
        let keys = self.leases.all.get(&id)?.keys.clone();
        let mut write = Write::new(&mut self.keys, &mut self.leases);
        for key in keys {
            write.delete(&Span::new(&key, &[]));
        }
        let events = write.end();
        self.leases.all.remove(&id);
        Some(events)
    }
}
