//! Maps errors of the etcd client to what they mean for the request that failed.

use std::{fmt, time::Duration};

use etcd_client::Error;
use futures_util::FutureExt;
use tonic::{Code, Status};

use crate::{
    backend::{StoreError, certificates},
    lost::LostReason,
    runtime::clock::timeout,
};

/// An error, and the endpoint that it came from.
#[derive(Debug)]
pub(super) struct EndpointError {
    pub(super) endpoint: String,
    pub(super) cause: Cause,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// The request may have been sent, and no reply came in time.
    ProcessStall,
    /// The reply is older than a revision that this client knows.
    Stale,
    Client(Error),
    /// The connection's user is no longer known, as far as that connection shows.
    Outdated(Error),
}

impl Cause {
    /// Returns `true` if the server does not know the request's user, or not by this token.
    ///
    /// Such a request was not applied. A token of type `jwt` also becomes invalid with every change
    /// of any user or role, and etcd-client does not request another:
    /// <https://github.com/etcd-io/etcd/blob/v3.5.16/server/auth/store.go#L836>.
    pub(super) fn is_unknown_user(&self) -> bool {
        let Self::Client(Error::GRpcStatus(status)) = self else { return false };
        match status.code() {
            Code::Unauthenticated => true,
            Code::InvalidArgument => ["authentication failed", "revision of auth store is old"]
                .iter()
                .any(|text| status.message().contains(text)),
            _ => false,
        }
    }

    pub(super) fn outdated(self) -> Self {
        match self {
            Self::Client(error) => Self::Outdated(error),
            other => other,
        }
    }
}

/// Waits for a member's reply, up to `patience`.
///
/// It is not an `async fn`, because that future would reserve room for the call twice: rustc keeps
/// an argument both where it came and where it is polled
/// (<https://github.com/rust-lang/rust/issues/62958>).
pub(super) fn in_time<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> impl Future<Output = Result<T, Cause>> {
    timeout(patience, call)
        .map(|reply| reply.map_err(|_| Cause::ProcessStall)?.map_err(Cause::Client))
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::ProcessStall => write!(f, "{} did not reply in time", self.endpoint),
            Cause::Stale => write!(
                f,
                "{}: the reply is older than an earlier one. If the cluster was restored from a \
                 backup, restart this client",
                self.endpoint
            ),
            Cause::Client(Error::GRpcStatus(status))
            | Cause::Outdated(Error::GRpcStatus(status)) => {
                let (endpoint, message) = (&self.endpoint, status.message());
                match certificates::explain(status) {
                    Some(fault) => write!(f, "{endpoint}: {fault}"),
                    None => write!(f, "{endpoint}: {message}"),
                }
            }
            Cause::Client(error) | Cause::Outdated(error) => {
                write!(f, "{}: {error}", self.endpoint)
            }
        }
    }
}

impl std::error::Error for EndpointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            // Its message is printed above. Its source describes the network's error.
            Cause::Client(Error::GRpcStatus(status)) => std::error::Error::source(status),
            _ => None,
        }
    }
}

/// Returns `true` if a learner has refused a request that it cannot serve.
///
/// The request was not applied. The code is `Unavailable` up to etcd 3.5, and `FailedPrecondition`
/// later.
pub(super) fn is_learner(message: &str) -> bool {
    message.contains("not supported for learner")
}

/// Returns the status by which the server has rejected a request.
fn refusal(error: &StoreError) -> Option<&Status> {
    let StoreError::Fatal { source, .. } = error else { return None };
    match &source.downcast_ref::<EndpointError>()?.cause {
        Cause::Client(Error::GRpcStatus(status)) => Some(status),
        _ => None,
    }
}

/// Returns `true` if the server has no space left (NOSPACE). The request was not applied.
pub(super) fn is_full(error: &StoreError) -> bool {
    refusal(error).is_some_and(|status| status.code() == Code::ResourceExhausted)
}

/// Returns `true` if the transaction has too many operations (`--max-txn-ops`).
///
/// The transaction was not applied.
pub(super) fn is_too_large(error: &StoreError) -> bool {
    refusal(error).is_some_and(|status| status.message().contains("too many operations"))
}

impl EndpointError {
    /// Classifies the error by whether the request was applied. The server's messages are in
    /// <https://github.com/etcd-io/etcd/blob/main/api/v3rpc/rpctypes/error.go>.
    pub(super) fn triage(self, operation: &'static str) -> StoreError {
        let status = match &self.cause {
            Cause::Outdated(_) | Cause::Stale => return StoreError::Unavailable(self.into()),
            Cause::Client(Error::GRpcStatus(status)) => status,
            Cause::Client(
                Error::InvalidArgs(_)
                | Error::InvalidUri(_)
                | Error::InvalidMetadataValue(_)
                // Occurs while the connection is set up: a certificate or key is unusable.
                | Error::TransportError(_),
            ) => return StoreError::Fatal { operation, source: self.into() },
            _ => return StoreError::Unknown(self.into()),
        };
        let message = status.message();
        if is_learner(message) {
            return StoreError::Unavailable(self.into());
        }
        match status.code() {
            Code::NotFound if message.contains("lease not found") => {
                StoreError::SessionGone(LostReason::SessionExpired)
            }
            // The member's users are outdated. Another member, or the same one soon, has the
            // current ones.
            Code::InvalidArgument if message.contains("revision of auth store is old") => {
                StoreError::Unavailable(self.into())
            }
            Code::InvalidArgument
                if message.contains("authentication failed") || message.contains("user name") =>
            {
                StoreError::Denied(self.into())
            }
            Code::FailedPrecondition if message.contains("auth") => StoreError::Denied(self.into()),
            Code::PermissionDenied | Code::Unauthenticated => StoreError::Denied(self.into()),
            Code::ResourceExhausted if message.contains("too many requests") => {
                StoreError::Unavailable(self.into())
            }
            // `ResourceExhausted` means that the store is full: deletes still work. `DataLoss`
            // means that the members differ (CORRUPT): no member applies a write until the operator
            // disarms the alarm.
            Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::ResourceExhausted
            | Code::DataLoss => StoreError::Fatal { operation, source: self.into() },
            // The request was never sent.
            Code::Unavailable
                if message.contains("connect error") || message.contains("dns error") =>
            {
                StoreError::Unavailable(self.into())
            }
            _ => StoreError::Unknown(self.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;

    fn triage(code: Code, message: &str) -> StoreError {
        let cause = Cause::Client(Error::GRpcStatus(Status::new(code, message)));
        EndpointError { endpoint: "h:2379".into(), cause }.triage("write")
    }

    #[test]
    fn refusal_of_a_learner_was_not_applied() {
        let refusal = "etcdserver: rpc not supported for learner";
        // Up to etcd 3.5, and later.
        for code in [Code::Unavailable, Code::FailedPrecondition] {
            assert!(matches!(triage(code, refusal), StoreError::Unavailable(_)), "{code:?}");
        }
        assert!(matches!(
            triage(Code::Unavailable, "etcdserver: request timed out"),
            StoreError::Unknown(_)
        ));
    }

    /// The server keeps renewing leases, so a call that retried would never return.
    #[test]
    fn corrupt_cluster_refuses_the_request() {
        let corrupt = triage(Code::DataLoss, "etcdserver: corrupt cluster");
        assert!(matches!(corrupt, StoreError::Fatal { .. }), "{corrupt:?}");
        assert!(!is_full(&corrupt));
    }

    #[test]
    fn full_server_is_not_reported_as_busy() {
        let full = "etcdserver: mvcc: database space exceeded";
        assert!(is_full(&triage(Code::ResourceExhausted, full)));
        assert!(!is_full(&triage(Code::ResourceExhausted, "etcdserver: too many requests")));
        assert!(!is_full(&triage(Code::InvalidArgument, "etcdserver: too many operations")));
    }
}
