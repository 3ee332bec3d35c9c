//! Spans and events. An event repeats what it is about in its own fields, because a log may be kept
//! without spans.

use std::time::Duration;

/// A lock as spans and events describe it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code))]
pub(super) struct Lock<'a> {
    pub(super) backend: &'static str,
    pub(super) primitive: &'static str,
    pub(super) name: &'a str,
}

#[cfg(feature = "tracing")]
mod on {
    use tracing::{Level, debug, debug_span, event, field::Empty, info, warn};

    use super::*;
    use crate::{lost::LostReason, telemetry::kind};

    pub(crate) use tracing::Span;

    const ACQUIRE: &str = "distlock.acquire";

    pub(crate) fn acquire(lock: Lock<'_>) -> Span {
        let Lock { backend, primitive, name } = lock;
        debug_span!(
            target: "distlock", ACQUIRE, backend, primitive, name,
            place = Empty, token = Empty, outcome = Empty, reason = Empty
        )
    }

    /// Records the number of entries ahead in the span of the current call.
    pub(crate) fn placed(ahead: usize) {
        let span = Span::current();
        // If the call's span is disabled, the current span is the user's.
        if span.metadata().is_some_and(|metadata| metadata.name() == ACQUIRE) {
            span.record("place", ahead);
        }
    }

    /// Records the result of a call.
    pub(crate) fn acquired(
        span: &Span,
        outcome: &'static str,
        reason: Option<&'static str>,
        token: Option<u64>,
    ) {
        span.record("outcome", outcome);
        if let Some(reason) = reason {
            span.record("reason", reason);
        }
        if let Some(token) = token {
            span.record("token", token);
        }
    }

    pub(crate) fn hold(lock: Lock<'_>, token: u64, acquire: &Span) -> Span {
        let Lock { backend, primitive, name } = lock;
        let span = debug_span!(
            target: "distlock", "distlock.hold", backend, primitive, name, token,
            outcome = Empty, reason = Empty
        );
        span.follows_from(acquire);
        debug!(target: "distlock", parent: &span, backend, primitive, name, token, "granted");
        span
    }

    pub(crate) fn released(span: &Span, lock: Lock<'_>, token: u64, held: Duration) {
        let Lock { backend, primitive, name } = lock;
        span.record("outcome", "released");
        let held = held.as_secs_f64();
        debug!(target: "distlock", parent: span, backend, primitive, name, token, held, "released");
    }

    pub(crate) fn lost(span: &Span, lock: Lock<'_>, token: u64, held: Duration, why: LostReason) {
        let (Lock { backend, primitive, name }, reason) = (lock, kind::reason(why));
        span.record("outcome", "lost");
        span.record("reason", reason);
        let held = held.as_secs_f64();
        macro_rules! tell {
            ($level:expr) => {
                event!(
                    target: "distlock", parent: span, $level, backend, primitive, name, token,
                    held, reason, "lost: {why}"
                )
            };
        }
        // A loss that the program itself caused needs no investigation.
        if why == LostReason::ClientClosed { tell!(Level::INFO) } else { tell!(Level::WARN) }
    }

    /// Records that the result of the release is unknown.
    pub(crate) fn unknown(span: &Span) {
        span.record("outcome", "unknown");
    }

    /// Warns about a release. `span`: the span of the hold, or `None` if the hold has ended.
    pub(crate) fn unconfirmed(span: Option<&Span>, lock: Lock<'_>, token: u64, why: &str) {
        let (Lock { backend, primitive, name }, parent) = (lock, span.and_then(Span::id));
        warn!(
            target: "distlock", parent: parent, backend, primitive, name, token,
            "the release is not confirmed yet and will be retried: {why}"
        );
    }

    pub(crate) fn replaced(backend: &'static str, why: Option<LostReason>) {
        let why = why.map_or_else(|| "the reason is unknown".to_owned(), |why| why.to_string());
        warn!(target: "distlock", backend, "the session was lost, and a new one was opened: {why}");
    }

    #[cfg(feature = "redis")]
    /// Warns that the configuration of the store does not guarantee exclusive locks.
    pub(crate) fn not_exclusive(backend: &'static str, reasons: &[String]) {
        let reasons = reasons.join("; ");
        warn!(
            target: "distlock", backend,
            "this store does not guarantee exclusive locks: {reasons}"
        );
    }

    /// Returns `true` if slow waits are logged, which costs a read of the queue.
    pub(crate) fn wants_slow() -> bool {
        tracing::enabled!(target: "distlock", Level::INFO)
    }

    /// Logs a slow wait. `place`: the number of entries ahead.
    pub(crate) fn slow_wait(
        name: &str,
        waited: Duration,
        place: Option<usize>,
        holder: &str,
        holder_token: u64,
    ) {
        if let Some(place) = place {
            placed(place);
        }
        let waited = waited.as_secs_f64();
        info!(
            target: "distlock", name, waited, place, holder, holder_token,
            "still waiting for the lock"
        );
    }
}

#[cfg(not(feature = "tracing"))]
mod on {
    use super::*;
    use crate::lost::LostReason;

    #[derive(Clone, Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) fn enter(&self) -> Entered<'_> {
            Entered(self)
        }
    }

    pub(crate) struct Entered<'a>(#[allow(dead_code)] &'a Span);

    pub(crate) fn acquire(_: Lock<'_>) -> Span {
        Span
    }

    pub(crate) fn placed(_: usize) {}

    pub(crate) fn acquired(_: &Span, _: &'static str, _: Option<&'static str>, _: Option<u64>) {}

    pub(crate) fn hold(_: Lock<'_>, _: u64, _: &Span) -> Span {
        Span
    }

    pub(crate) fn released(_: &Span, _: Lock<'_>, _: u64, _: Duration) {}

    pub(crate) fn lost(_: &Span, _: Lock<'_>, _: u64, _: Duration, _: LostReason) {}

    pub(crate) fn unknown(_: &Span) {}

    pub(crate) fn unconfirmed(_: Option<&Span>, _: Lock<'_>, _: u64, _: &str) {}

    pub(crate) fn replaced(_: &'static str, _: Option<LostReason>) {}

    #[cfg(feature = "redis")]
    pub(crate) fn not_exclusive(_: &'static str, _: &[String]) {}

    pub(crate) fn wants_slow() -> bool {
        false
    }

    pub(crate) fn slow_wait(_: &str, _: Duration, _: Option<usize>, _: &str, _: u64) {}
}

#[cfg(feature = "redis")]
pub(crate) use on::not_exclusive;
pub(super) use on::{
    Span, acquire, acquired, hold, lost, released, replaced, unconfirmed, unknown,
};
pub(crate) use on::{placed, slow_wait, wants_slow};
