//! A call for a lock, from its start until it returns or is dropped.

use std::{future::poll_fn, pin::Pin, sync::Arc};

use super::{
    Primitive,
    account::{Account, Accounts, Slot},
    client::Telemetry,
    meter::{self, Labels},
    trace::{self, Lock, Span},
};
use crate::{
    error::{Error, Result},
    runtime::clock::Instant,
};

/// A call for a lock. Dropping it reports that the call was cancelled.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    telemetry: Telemetry,
    primitive: Primitive,
    name: &'a str,
    /// The user's metric label for the lock.
    lock: Option<Arc<str>>,
    only_tries: bool,
    since: Instant,
    span: Span,
    over: bool,
}

impl<'a> Call<'a> {
    /// Reports the start of a call. `only_tries`: it is a `try` and does not wait.
    pub(crate) fn new(
        telemetry: Telemetry,
        primitive: Primitive,
        name: &'a str,
        only_tries: bool,
    ) -> Self {
        let lock = telemetry.label.map(|label| label(name).into());
        let span = trace::acquire(Lock {
            backend: telemetry.backend,
            primitive: primitive.as_str(),
            name,
        });
        let since = Instant::now();
        let call = Self { telemetry, primitive, name, lock, only_tries, since, span, over: false };
        meter::step(&meter::WAITERS, true, call.labels());
        call
    }

    fn labels(&self) -> Labels<'_> {
        Labels {
            primitive: Some(self.primitive.as_str()),
            lock: self.lock.as_ref(),
            ..Labels::of(self.telemetry.backend)
        }
    }

    /// Runs the work of the call within its span.
    pub(crate) async fn within<F: Future + Unpin>(&self, mut work: F) -> F::Output {
        poll_fn(|context| {
            let _entered = self.span.enter();
            Pin::new(&mut work).poll(context)
        })
        .await
    }

    /// Reports that the call has acquired a lock. The slot belongs to the lock's key.
    pub(crate) fn granted(mut self, token: u64, accounts: &Accounts, slot: &Slot) -> Account {
        self.end("acquired", None, Some(token));
        let (telemetry, lock) = (self.telemetry, self.lock.take());
        let account =
            Account::open(telemetry, self.primitive, self.name, lock, token, &self.span, accounts);
        slot.put(&account);
        account
    }

    /// Reports that the call has returned without a lock.
    pub(crate) fn returned<T>(mut self, taken: &Result<Option<T>>) {
        match taken {
            Ok(_) if self.only_tries => self.end("busy", None, None),
            Ok(_) => self.end("timeout", None, None),
            Err(error) => self.end("error", Some(reason(error)), None),
        }
    }

    /// Reports that several locks could not be acquired in one request.
    ///
    /// Other calls then acquire them one by one.
    pub(crate) fn forget(mut self) {
        self.over = true;
        meter::step(&meter::WAITERS, false, self.labels());
        trace::acquired(&self.span, "one_by_one", None, None);
    }

    fn end(&mut self, outcome: &'static str, reason: Option<&'static str>, token: Option<u64>) {
        self.over = true;
        let both = [("outcome", outcome), ("reason", reason.unwrap_or_default())];
        let more = if reason.is_some() { &both[..] } else { &both[..1] };
        meter::step(&meter::WAITERS, false, self.labels());
        meter::time(&meter::ACQUIRE, self.since.elapsed(), Labels { more, ..self.labels() });
        trace::acquired(&self.span, outcome, reason, token);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.end("cancelled", None, None);
        }
    }
}

/// Returns the reason as one word.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::Denied { .. } => "denied",
        Error::Unavailable { .. } => "unavailable",
        Error::NotYet { .. } => "not_yet",
        Error::SessionLost { .. } => "session_lost",
        Error::Evicted { .. } => "evicted",
        Error::Closed => "closed",
        Error::Backend { .. } => "backend",
        _ => "other",
    }
}
