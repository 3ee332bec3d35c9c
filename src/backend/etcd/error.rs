//! What an etcd client's error means for the request that met it.

use std::{fmt, time::Duration};

use etcd_client::Error;
use futures_util::FutureExt;
use tonic::{Code, Status};

use crate::{
    backend::{StoreError, certificates},
    lost::LostReason,
    runtime::clock::timeout,
};

/// An error and the endpoint that it came from.
#[derive(Debug)]
pub(super) struct EndpointError {
    pub(super) endpoint: String,
    pub(super) cause: Cause,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// The request was sent, perhaps, and nothing came back in time.
    ProcessStall,
    /// It answered by what it had before a revision that is known.
    Stale,
    Client(Error),
    /// The connection's user is not known any more, as far as that connection can tell.
    Outdated(Error),
}

impl Cause {
    /// Whether the server does not know the user that the request came from, or not by this token.
    /// It was not applied, then. A token of the kind `jwt` also ends with every change of any user
    /// or role, and etcd-client asks for no other:
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

/// What a member answers, if it does in time.
///
/// No `async fn`: its future would have room for the call twice, as rustc keeps an argument both
/// where it came and where it is polled (<https://github.com/rust-lang/rust/issues/62958>).
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
            Cause::ProcessStall => write!(f, "{} did not answer in time", self.endpoint),
            Cause::Stale => write!(f, "{}: a stale read", self.endpoint),
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
            // Its message is told above; what lies below it tells of the network.
            Cause::Client(Error::GRpcStatus(status)) => std::error::Error::source(status),
            _ => None,
        }
    }
}

/// The member does not vote yet and refuses what it cannot serve: nothing was applied. The code is
/// `Unavailable` up to etcd 3.5, and `FailedPrecondition` later.
pub(super) fn is_learner(message: &str) -> bool {
    message.contains("not supported for learner")
}

/// What the server says of a request that it has refused for what was asked.
fn refusal(error: &StoreError) -> Option<&Status> {
    let StoreError::Fatal { source, .. } = error else { return None };
    match &source.downcast_ref::<EndpointError>()?.cause {
        Cause::Client(Error::GRpcStatus(status)) => Some(status),
        _ => None,
    }
}

/// The server has no room for what was to be written (NOSPACE): nothing was applied.
pub(super) fn is_full(error: &StoreError) -> bool {
    refusal(error).is_some_and(|status| status.code() == Code::ResourceExhausted)
}

/// The transaction has more operations than the server takes (`--max-txn-ops`): it was not applied.
pub(super) fn is_too_large(error: &StoreError) -> bool {
    refusal(error).is_some_and(|status| status.message().contains("too many operations"))
}

impl EndpointError {
    /// Sorts the error by what is known of the request. The server's messages are in
    /// <https://github.com/etcd-io/etcd/blob/main/api/v3rpc/rpctypes/error.go>.
    pub(super) fn triage(self, operation: &'static str) -> StoreError {
        let status = match &self.cause {
            Cause::Outdated(_) | Cause::Stale => return StoreError::Unavailable(self.into()),
            Cause::Client(Error::GRpcStatus(status)) => status,
            Cause::Client(
                Error::InvalidArgs(_)
                | Error::InvalidUri(_)
                | Error::InvalidMetadataValue(_)
                // Raised while the connection is being set up: a certificate or key that cannot be
                // used.
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
            // The member is behind in the users' changes; another one or the same one soon is not.
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
            // `ResourceExhausted` is the store being full: a delete still works.
            Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::ResourceExhausted => StoreError::Fatal { operation, source: self.into() },
            // Never left this machine.
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

    #[test]
    fn full_server_is_no_busy_one() {
        let full = "etcdserver: mvcc: database space exceeded";
        assert!(is_full(&triage(Code::ResourceExhausted, full)));
        assert!(!is_full(&triage(Code::ResourceExhausted, "etcdserver: too many requests")));
        assert!(!is_full(&triage(Code::InvalidArgument, "etcdserver: too many operations")));
    }
}
