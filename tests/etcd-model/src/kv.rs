//! Reading, writing and deleting keys, and compaction.

use std::cmp::Ordering;

use etcd_client::{
    SortOrder, SortTarget,
    proto::{
        PbCompactionRequest, PbCompactionResponse, PbDeleteRequest, PbDeleteResponse, PbKeyValue,
        PbPutRequest, PbPutResponse, PbRangeRequest, PbRangeResponse, PbResponseHeader,
    },
};
use prost::Message;

use crate::{
    Model,
    error::{self, Result},
    keys::{Keys, Span},
    write::Write,
};

/// The default of `--max-request-bytes`.
const MAX_REQUEST_BYTES: usize = 1024 * 1024 + 512 * 1024;

pub(crate) fn check_size(request: &impl Message) -> Result<()> {
    match request.encoded_len() {
        0..=MAX_REQUEST_BYTES => Ok(()),
        _ => Err(error::request_too_large()),
    }
}

pub(crate) fn check_range(request: &PbRangeRequest) -> Result<()> {
    if request.key.is_empty() { Err(error::empty_key()) } else { Ok(()) }
}

pub(crate) fn check_delete(request: &PbDeleteRequest) -> Result<()> {
    if request.key.is_empty() { Err(error::empty_key()) } else { Ok(()) }
}

pub(crate) fn check_put(request: &PbPutRequest) -> Result<()> {
    if request.key.is_empty() {
        return Err(error::empty_key());
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(error::value_provided());
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(error::lease_provided());
    }
    Ok(())
}

/// Returns a header as in replies within a transaction.
pub(crate) fn bare_header(revision: i64) -> Option<PbResponseHeader> {
    Some(PbResponseHeader { revision, ..PbResponseHeader::default() })
}

fn compare(target: SortTarget, one: &PbKeyValue, other: &PbKeyValue) -> Ordering {
    match target {
        SortTarget::Key => one.key.cmp(&other.key),
        SortTarget::Version => one.version.cmp(&other.version),
        SortTarget::Create => one.create_revision.cmp(&other.create_revision),
        SortTarget::Mod => one.mod_revision.cmp(&other.mod_revision),
        SortTarget::Value => one.value.cmp(&other.value),
    }
}

/// Reads keys. `now`: the latest revision that the reader sees.
pub(crate) fn range(keys: &Keys, request: &PbRangeRequest, now: i64) -> Result<PbRangeResponse> {
    let revision = match request.revision {
        past @ 1.. => past,
        _ => now,
    };
    if revision > now {
        return Err(error::future_revision());
    }
    if revision < keys.compacted {
        return Err(error::compacted());
    }
    let span = Span::new(&request.key, &request.range_end);
    let found: Vec<_> = keys.at(&span, revision).collect();
    let count = i64::try_from(found.len()).unwrap_or(i64::MAX);
    let mut response =
        PbRangeResponse { header: bare_header(now), kvs: vec![], more: false, count };
    if request.count_only {
        return Ok(response);
    }
    let within = |value: i64, least: i64, most: i64| value >= least && (most == 0 || value <= most);
    let mut found: Vec<_> = found
        .into_iter()
        .filter(|kv| within(kv.mod_revision, request.min_mod_revision, request.max_mod_revision))
        .filter(|kv| {
            within(kv.create_revision, request.min_create_revision, request.max_create_revision)
        })
        .collect();
    let target = SortTarget::try_from(request.sort_target).unwrap_or(SortTarget::Key);
    let order = SortOrder::try_from(request.sort_order).unwrap_or(SortOrder::None);
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let is_filtered = request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0;
    if limit > 0 && order == SortOrder::None && !is_filtered {
        // The server reads no more, though it may sort by another attribute than the key.
        found.truncate(limit + 1);
    }
    match order {
        SortOrder::Descend => found.sort_by(|one, other| compare(target, other, one)),
        // They are already sorted by key.
        SortOrder::None | SortOrder::Ascend => {
            found.sort_by(|one, other| compare(target, one, other));
        }
    }
    if limit > 0 && found.len() > limit {
        found.truncate(limit);
        response.more = true;
    }
    let read = |kv: &PbKeyValue| {
        let value = if request.keys_only { vec![] } else { kv.value.clone() };
        PbKeyValue { key: kv.key.clone(), value, ..*kv }
    };
    response.kvs = found.into_iter().map(read).collect();
    Ok(response)
}

impl Write<'_> {
    pub(crate) fn apply_put(&mut self, request: &PbPutRequest) -> Result<PbPutResponse> {
        let before = self.keys.one(&request.key, self.revision()).cloned();
        if (request.ignore_value || request.ignore_lease) && before.is_none() {
            return Err(error::key_not_found());
        }
        let old = before.clone().unwrap_or_default();
        let value = if request.ignore_value { old.value } else { request.value.clone() };
        let lease = if request.ignore_lease { old.lease } else { request.lease };
        self.put(&request.key, value, lease);
        let prev_kv = before.filter(|_| request.prev_kv);
        Ok(PbPutResponse { header: bare_header(self.next()), prev_kv })
    }

    pub(crate) fn apply_delete(&mut self, request: &PbDeleteRequest) -> PbDeleteResponse {
        let span = Span::new(&request.key, &request.range_end);
        let prev_kvs = match request.prev_kv {
            true => self.keys.at(&span, self.revision()).cloned().collect(),
            false => vec![],
        };
        let deleted = self.delete(&span);
        PbDeleteResponse { header: bare_header(self.revision()), deleted, prev_kvs }
    }
}

impl Model {
    /// Reads one or more keys.
    ///
    /// # Errors
    ///
    /// The request has no key, or its revision is not available.
    pub fn range(&self, request: &PbRangeRequest) -> Result<PbRangeResponse> {
        check_range(request)?;
        let mut response = range(&self.keys, request, self.keys.revision)?;
        response.header = self.header(self.keys.revision);
        Ok(response)
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// The request is wrong or too large, its lease is unknown, or the server is full.
    pub fn put(&mut self, request: &PbPutRequest) -> Result<PbPutResponse> {
        check_put(request)?;
        check_size(request)?;
        if self.is_full() {
            return Err(error::no_space());
        }
        if request.lease != 0 && !self.leases.exists(request.lease) {
            return Err(error::lease_not_found());
        }
        let mut write = Write::new(&mut self.keys, &mut self.leases);
        let mut response = write.apply_put(request)?;
        let events = write.end();
        self.notify(&events);
        response.header = self.header(self.keys.revision);
        Ok(response)
    }

    /// Deletes one or more keys.
    ///
    /// # Errors
    ///
    /// The request has no key.
    pub fn delete_range(&mut self, request: &PbDeleteRequest) -> Result<PbDeleteResponse> {
        check_delete(request)?;
        let mut write = Write::new(&mut self.keys, &mut self.leases);
        let mut response = write.apply_delete(request);
        let events = write.end();
        self.notify(&events);
        response.header = self.header(self.keys.revision);
        Ok(response)
    }

    /// Forgets versions that were overwritten or deleted up to a revision.
    ///
    /// # Errors
    ///
    /// The revision was already compacted, or does not exist yet.
    pub fn compact(&mut self, request: &PbCompactionRequest) -> Result<PbCompactionResponse> {
        if request.revision <= self.keys.compacted {
            return Err(error::compacted());
        }
        if request.revision > self.keys.revision {
            return Err(error::future_revision());
        }
        self.keys.compact(request.revision);
        Ok(PbCompactionResponse { header: self.header(self.keys.revision) })
    }
}
