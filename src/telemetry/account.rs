//! Records of holds, from the grant to the confirmed release. Every grant is reported once, and so
//! is its end.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Ended, LISTENS, Primitive,
    client::Telemetry,
    kind,
    meter::{self, Labels},
    trace::{self, Lock, Span},
};
use crate::{
    lost::LostReason,
    runtime::{clock::Instant, mutex::Mutex},
};

/// The record of one hold. Its owner has to report how the hold ended. Other parts of the library
/// may report a loss before that.
#[derive(Debug, Default)]
pub(crate) struct Account {
    record: Option<Arc<Record>>,
}

/// A handle on a record that can only report trouble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handle {
    record: Option<Arc<Record>>,
}

/// The records of all holds of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    open: Arc<Mutex<BTreeMap<u64, Weak<Record>>>>,
}

/// The record of the lock held by one key.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    record: Mutex<Weak<Record>>,
}

#[derive(Debug)]
struct Record {
    telemetry: Telemetry,
    name: Box<str>,
    lock: Option<Arc<str>>,
    token: u64,
    since: Instant,
    /// A slow release has been reported.
    warned: AtomicBool,
    state: Mutex<State>,
    /// The list that contains the record, and its number there.
    accounts: Accounts,
    number: u64,
}

#[derive(Debug)]
struct State {
    primitive: Primitive,
    /// Shared, because a clone of a span calls the subscriber. `None` once the hold has ended.
    span: Option<Arc<Span>>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Held,
    /// Released at this time, after a hold of this length. The store has not confirmed it yet.
    LeaveRequest(Instant, Duration),
    /// Lost at this time, because the maximum hold time has passed. The store may not have
    /// confirmed the release yet.
    Overdue(Instant),
    Over,
}

impl Account {
    pub(super) fn open(
        telemetry: Telemetry,
        primitive: Primitive,
        name: &str,
        lock: Option<Arc<str>>,
        token: u64,
        acquire: &Span,
        accounts: &Accounts,
    ) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        if !LISTENS {
            return Self::default();
        }
        let subject = Lock { backend: telemetry.backend, primitive: primitive.as_str(), name };
        let state = State {
            primitive,
            span: Some(trace::hold(subject, token, acquire).into()),
            phase: Phase::Held,
        };
        let record = Arc::new(Record {
            telemetry,
            name: name.into(),
            lock,
            token,
            since: Instant::now(),
            warned: AtomicBool::new(false),
            state: Mutex::new(state),
            accounts: accounts.clone(),
            number: OPENED.fetch_add(1, Ordering::Relaxed),
        });
        record.step(primitive, true);
        accounts.open.lock().insert(record.number, Arc::downgrade(&record));
        Self { record: Some(record) }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle { record: self.record.clone() }
    }

    /// Reports that the lock is now held as another primitive.
    pub(crate) fn relabelled(&self, to: Primitive) {
        let Some(record) = &self.record else { return };
        let mut state = record.state.lock();
        let (from, held) = (state.primitive, matches!(state.phase, Phase::Held));
        state.primitive = to;
        drop(state);
        if held {
            record.step(from, false);
            record.step(to, true);
        }
    }

    /// Reports the loss, if there is a reason.
    pub(crate) fn lose(&self, reason: impl FnOnce() -> Option<LostReason>) {
        if let Some(record) = &self.record
            && let Some(reason) = reason()
        {
            record.lose(reason);
        }
    }

    /// Reports that the owner has released the lock.
    pub(crate) fn let_go(&self) {
        if let Some(record) = &self.record {
            record.let_go();
        }
    }

    /// Reports the result of the release, or of the handover within the client.
    pub(crate) fn ended(mut self, ended: Ended) {
        if let Some(record) = self.record.take() {
            record.let_go();
            record.end(ended);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record.let_go();
            record.end(Ended::Unknown);
        }
    }
}

impl Handle {
    /// Reports once that a release is unconfirmed, if it takes longer than `longer`. The deletion
    /// of an overdue hold's key is a release, too.
    pub(crate) fn unconfirmed(&self, longer: Option<Duration>, why: impl FnOnce() -> String) {
        let Some(record) = &self.record else { return };
        let state = record.state.lock();
        let (Phase::LeaveRequest(since, _) | Phase::Overdue(since)) = state.phase else { return };
        let (span, primitive) = (state.span.clone(), state.primitive);
        drop(state);
        if longer.is_some_and(|longer| since.elapsed() < longer)
            || record.warned.swap(true, Ordering::Relaxed)
        {
            return;
        }
        trace::unconfirmed(span.as_deref(), record.subject(primitive), record.token, &why());
    }
}

impl Accounts {
    /// Reports the end of the session and the loss of all its locks.
    pub(crate) fn lose(&self, reason: LostReason) {
        let open = mem::take(&mut *self.open.lock());
        open.values().filter_map(Weak::upgrade).for_each(|record| record.lose(reason));
    }
}

impl Slot {
    pub(crate) fn put(&self, account: &Account) {
        let record = account.record.as_ref().map(Arc::downgrade).unwrap_or_default();
        *self.record.lock() = record;
    }

    /// Reports that the key is gone.
    pub(crate) fn lose(&self, reason: LostReason) {
        let record = self.record.lock().upgrade();
        if let Some(record) = record {
            record.lose(reason);
        }
    }
}

impl Record {
    fn subject(&self, primitive: Primitive) -> Lock<'_> {
        let (backend, primitive) = (self.telemetry.backend, primitive.as_str());
        Lock { backend, primitive, name: &self.name }
    }

    fn labels<'a>(
        &'a self,
        primitive: Primitive,
        more: &'a [(&'static str, &'static str)],
    ) -> Labels<'a> {
        let (backend, lock) = (self.telemetry.backend, self.lock.as_ref());
        Labels { backend, primitive: Some(primitive.as_str()), lock, more }
    }

    /// Counts one lock more or less.
    fn step(&self, primitive: Primitive, up: bool) {
        meter::step(&meter::HELD, up, self.labels(primitive, &[]));
        if primitive == Primitive::Election {
            let (backend, lock) = (self.telemetry.backend, self.lock.as_ref());
            meter::step(&meter::LEADER, up, Labels { lock, ..Labels::of(backend) });
        }
    }

    /// Marks the lock as released. Returns `true` if it was held until now.
    fn let_go(&self) -> bool {
        let mut state = self.state.lock();
        let Phase::Held = state.phase else { return false };
        state.phase = Phase::LeaveRequest(Instant::now(), self.since.elapsed());
        let primitive = state.primitive;
        drop(state);
        self.step(primitive, false);
        true
    }

    fn lose(&self, reason: LostReason) {
        // The release of the lock reports its result itself.
        if self.let_go() {
            self.end(Ended::Lost(reason));
        }
    }

    /// Reports the end of the hold. Only the first end counts.
    fn end(&self, ended: Ended) {
        let mut state = self.state.lock();
        let Phase::LeaveRequest(since, held) = state.phase else { return };
        let Some(span) = state.span.take() else { return };
        state.phase = match ended {
            Ended::Lost(LostReason::HeldTooLong) => Phase::Overdue(since),
            _ => Phase::Over,
        };
        let primitive = state.primitive;
        drop(state);
        drop(self.accounts.open.lock().remove(&self.number));
        let subject = self.subject(primitive);
        let outcome = [("outcome", ended.as_str())];
        meter::time(&meter::HOLD, held, self.labels(primitive, &outcome));
        match ended {
            Ended::Released => trace::released(&span, subject, self.token, held),
            Ended::Lost(why) => {
                let reason = [("reason", kind::reason(why))];
                meter::count(&meter::LOST, self.labels(primitive, &reason));
                trace::lost(&span, subject, self.token, held, why);
            }
            Ended::Unknown => trace::unknown(&span),
        }
    }
}
