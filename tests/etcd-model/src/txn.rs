//! Transactions: all comparisons, including those of nested transactions, are evaluated first; then
//! the chosen operations are executed.

use std::collections::HashSet;

use etcd_client::{
    CompareOp,
    proto::{
        PbCompare, PbCompareTarget, PbKeyValue, PbPutRequest, PbRangeRequest, PbResponseOp,
        PbTargetUnion, PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest, PbTxnRequestOp,
        PbTxnResponse,
    },
};

use crate::{
    Model,
    error::{self, Result},
    keys::{Keys, Span},
    kv::{self, bare_header, check_delete, check_put, check_range, check_size},
    lease::Leases,
    write::Write,
};

/// Checks the form of a transaction. `most`: the maximum number of operations.
fn check(txn: &PbTxnRequest, most: usize) -> Result<()> {
    let longest = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    if longest > most {
        return Err(error::too_many_operations());
    }
    if txn.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(error::empty_key());
    }
    for operation in txn.success.iter().chain(&txn.failure) {
        match &operation.request {
            Some(PbTxnOpRequest::RequestRange(range)) => check_range(range)?,
            Some(PbTxnOpRequest::RequestPut(put)) => check_put(put)?,
            Some(PbTxnOpRequest::RequestDeleteRange(delete)) => check_delete(delete)?,
            Some(PbTxnOpRequest::RequestTxn(txn)) => check(txn, most - longest)?,
            None => return Err(error::key_not_found()),
        }
    }
    Ok(())
}

/// The keys that the operations of one branch write.
#[derive(Default)]
struct Written {
    puts: HashSet<Vec<u8>>,
    deletes: Vec<Span>,
}

impl Written {
    fn deletes(&self, key: &[u8]) -> bool {
        self.deletes.iter().any(|span| span.contains(key))
    }

    /// Checks that no key is put twice, or put and deleted. Both branches of a nested transaction
    /// count.
    fn of(operations: &[PbTxnRequestOp]) -> Result<Self> {
        let mut written = Self::default();
        let requests = || operations.iter().filter_map(|operation| operation.request.as_ref());
        for request in requests() {
            if let PbTxnOpRequest::RequestDeleteRange(delete) = request {
                written.deletes.push(Span::plain(&delete.key, &delete.range_end));
            }
        }
        for request in requests() {
            let PbTxnOpRequest::RequestTxn(txn) = request else { continue };
            let (success, failure) = (Self::of(&txn.success)?, Self::of(&txn.failure)?);
            for (keys, excused) in [(&success.puts, None), (&failure.puts, Some(&success.puts))] {
                for key in keys {
                    let twice = written.puts.contains(key)
                        && !excused.is_some_and(|excused| excused.contains(key));
                    if twice || written.deletes(key) {
                        return Err(error::duplicate_key());
                    }
                    written.puts.insert(key.clone());
                }
            }
            written.deletes.extend(success.deletes.into_iter().chain(failure.deletes));
        }
        for request in requests() {
            let PbTxnOpRequest::RequestPut(PbPutRequest { key, .. }) = request else { continue };
            if written.deletes(key) || !written.puts.insert(key.clone()) {
                return Err(error::duplicate_key());
            }
        }
        Ok(written)
    }
}

/// Returns `true` if a comparison holds for this key and value.
fn compare_one(compare: &PbCompare, kv: &PbKeyValue) -> bool {
    let union = compare.target_union.as_ref();
    // A missing number is zero.
    let number = |value: i64, given: Option<i64>| value.cmp(&given.unwrap_or(0));
    let ordering = match PbCompareTarget::try_from(compare.target) {
        Ok(PbCompareTarget::Value) => match union {
            Some(PbTargetUnion::Value(value)) => kv.value.cmp(value),
            _ => kv.value.cmp(&Vec::new()),
        },
        Ok(PbCompareTarget::Create) => number(
            kv.create_revision,
            match union {
                Some(PbTargetUnion::CreateRevision(revision)) => Some(*revision),
                _ => None,
            },
        ),
        Ok(PbCompareTarget::Mod) => number(
            kv.mod_revision,
            match union {
                Some(PbTargetUnion::ModRevision(revision)) => Some(*revision),
                _ => None,
            },
        ),
        Ok(PbCompareTarget::Version) => number(
            kv.version,
            match union {
                Some(PbTargetUnion::Version(version)) => Some(*version),
                _ => None,
            },
        ),
        Ok(PbCompareTarget::Lease) => number(
            kv.lease,
            match union {
                Some(PbTargetUnion::Lease(lease)) => Some(*lease),
                _ => None,
            },
        ),
        Err(_) => std::cmp::Ordering::Equal,
    };
    match CompareOp::try_from(compare.result) {
        Ok(CompareOp::Equal) => ordering.is_eq(),
        Ok(CompareOp::NotEqual) => ordering.is_ne(),
        Ok(CompareOp::Greater) => ordering.is_gt(),
        Ok(CompareOp::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}

/// Returns `true` if a comparison holds for every key of its range. Without a key, it compares
/// zeros, and never holds for a value.
fn compare(keys: &Keys, compare: &PbCompare) -> bool {
    let span = Span::new(&compare.key, &compare.range_end);
    let mut found = keys.at(&span, keys.revision).peekable();
    if found.peek().is_none() {
        let value = compare.target == i32::from(PbCompareTarget::Value);
        return !value && compare_one(compare, &PbKeyValue::default());
    }
    found.all(|kv| compare_one(compare, kv))
}

/// The operations that the comparisons of a transaction have chosen.
struct Plan<'a> {
    succeeded: bool,
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    One(&'a PbTxnOpRequest),
    Txn(Plan<'a>),
}

impl<'a> Plan<'a> {
    fn of(keys: &Keys, txn: &'a PbTxnRequest) -> Self {
        let succeeded = txn.compare.iter().all(|condition| compare(keys, condition));
        let operations = if succeeded { &txn.success } else { &txn.failure };
        let step = |request: &'a PbTxnOpRequest| match request {
            PbTxnOpRequest::RequestTxn(txn) => Step::Txn(Self::of(keys, txn)),
            request => Step::One(request),
        };
        let requests = operations.iter().filter_map(|operation| operation.request.as_ref());
        Self { succeeded, steps: requests.map(step).collect() }
    }

    /// Checks each operation, in order.
    fn check(&self, check: &impl Fn(&PbTxnOpRequest) -> Result<()>) -> Result<()> {
        self.steps.iter().try_for_each(|step| match step {
            Step::One(request) => check(request),
            Step::Txn(plan) => plan.check(check),
        })
    }

    fn apply(&self, write: &mut Write<'_>) -> Result<PbTxnResponse> {
        let mut responses = Vec::new();
        for step in &self.steps {
            let response = match step {
                Step::Txn(plan) => PbTxnOpResponse::ResponseTxn(plan.apply(write)?),
                Step::One(PbTxnOpRequest::RequestRange(range)) => {
                    let revision = write.revision();
                    PbTxnOpResponse::ResponseRange(kv::range(write.keys, range, revision)?)
                }
                Step::One(PbTxnOpRequest::RequestPut(put)) => {
                    PbTxnOpResponse::ResponsePut(write.apply_put(put)?)
                }
                Step::One(PbTxnOpRequest::RequestDeleteRange(delete)) => {
                    PbTxnOpResponse::ResponseDeleteRange(write.apply_delete(delete))
                }
                Step::One(PbTxnOpRequest::RequestTxn(_)) => continue,
            };
            responses.push(PbResponseOp { response: Some(response) });
        }
        let succeeded = self.succeeded;
        // A nested transaction's header is present, but empty.
        Ok(PbTxnResponse { header: bare_header(0), succeeded, responses })
    }
}

/// Checks the conditions of a put.
fn check_put_in(keys: &Keys, leases: &Leases, put: &PbPutRequest) -> Result<()> {
    if (put.ignore_value || put.ignore_lease) && keys.one(&put.key, keys.revision).is_none() {
        return Err(error::key_not_found());
    }
    if put.lease != 0 && !leases.exists(put.lease) {
        return Err(error::lease_not_found());
    }
    Ok(())
}

/// Checks that a read's revision exists. A negative revision in a transaction is compared as it is.
fn check_range_in(keys: &Keys, range: &PbRangeRequest) -> Result<()> {
    match range.revision {
        0 => Ok(()),
        revision if revision > keys.revision => Err(error::future_revision()),
        revision if revision < keys.compacted => Err(error::compacted()),
        _ => Ok(()),
    }
}

fn any(txn: &PbTxnRequest, is: &impl Fn(&PbTxnOpRequest) -> bool) -> bool {
    let mut requests = txn.success.iter().chain(&txn.failure).filter_map(|op| op.request.as_ref());
    requests.any(|request| match request {
        PbTxnOpRequest::RequestTxn(txn) => is(request) || any(txn, is),
        request => is(request),
    })
}

/// Returns `true` if a member needs only its own state for it.
pub(crate) fn is_local(txn: &PbTxnRequest) -> bool {
    !any(txn, &|one| !matches!(one, PbTxnOpRequest::RequestRange(range) if range.serializable))
}

impl Model {
    /// Executes a transaction.
    ///
    /// # Errors
    ///
    /// The transaction is wrong or too large, a lease or a revision is unknown, or the server is
    /// full.
    pub fn txn(&mut self, request: &PbTxnRequest) -> Result<PbTxnResponse> {
        check(request, self.settings.max_txn_ops)?;
        Written::of(&request.success)?;
        Written::of(&request.failure)?;
        let writes = any(request, &|one| !matches!(one, PbTxnOpRequest::RequestRange(_)));
        if writes {
            check_size(request)?;
        }
        // A put in either branch, executed or not.
        let puts = any(request, &|one| matches!(one, PbTxnOpRequest::RequestPut(_)));
        if self.is_full() && puts {
            return Err(error::no_space());
        }
        let plan = Plan::of(&self.keys, request);
        plan.check(&|request| match request {
            PbTxnOpRequest::RequestPut(put) => check_put_in(&self.keys, &self.leases, put),
            _ => Ok(()),
        })?;
        plan.check(&|request| match request {
            PbTxnOpRequest::RequestRange(range) => check_range_in(&self.keys, range),
            _ => Ok(()),
        })?;
        let mut write = Write::new(&mut self.keys, &mut self.leases);
        let applied = plan.apply(&mut write);
        let events = write.end();
        self.notify(&events);
        let mut response = applied?;
        response.header = self.header(self.keys.revision);
        Ok(response)
    }
}
