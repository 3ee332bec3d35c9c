//! How the key of an ended attempt is deleted, and the result.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    backend::{Joiner, LeaveRequest, Queue, StoreError, Ticket},
    lost::LostReason,
    session::{
        Session, Tries,
        own_key::{End, OwnKey},
    },
    telemetry::{Ended, Handle},
};

/// The state of a release.
#[derive(Debug, Clone)]
pub(crate) enum Release {
    Trying(Option<String>),
    /// This release deleted the key, or an earlier request of it without a reply may have done so.
    Released,
    /// The key no longer existed, although only this guard should have deleted it.
    Absent,
    SessionOver(LostReason),
    /// The store denied the deletion. It is retried, because the permission may be restored.
    Refused(String),
}

impl Release {
    /// Returns the result as telemetry reports it.
    pub(super) fn end(&self) -> Ended {
        match self {
            Self::Released => Ended::Released,
            Self::Absent => Ended::Lost(LostReason::Evicted),
            Self::SessionOver(reason) => Ended::Lost(*reason),
            Self::Trying(_) | Self::Refused(_) => Ended::Unknown,
        }
    }

    pub(super) fn trouble(&self) -> String {
        match self {
            Self::Trying(Some(why)) | Self::Refused(why) => why.clone(),
            _ => "no reply yet".to_owned(),
        }
    }
}

/// Where failed release requests are reported.
pub(super) struct Trouble {
    pub(super) progress: watch::Sender<Release>,
    pub(super) account: Handle,
}

impl Trouble {
    /// Reports why a release request failed. Every failure is retried.
    pub(super) fn note(&self, error: &StoreError, patience: Duration) {
        let refused = matches!(error, StoreError::Denied(_));
        let (reason, patience) = (error.reason(), (!refused).then_some(patience));
        self.account.unconfirmed(patience, || reason.clone());
        let release =
            if refused { Release::Refused(reason) } else { Release::Trying(Some(reason)) };
        self.progress.send_replace(release);
    }
}

/// Deletes the key, and returns the result and the requests that it took.
///
/// The request is retried until the store confirms the deletion, or until the session is lost. The
/// key then ends with the session.
pub(super) async fn release(
    session: &Session,
    queue: &Queue,
    ticket: Ticket,
    own: Option<&Arc<OwnKey>>,
    held: bool,
    trouble: &Trouble,
) -> (Release, Tries) {
    let request = || async {
        let successor = own.and_then(|own| own.successor());
        let leaving = LeaveRequest {
            entry: own.map(|own| &own.entry),
            held,
            successor: successor.as_deref().map(|successor| &successor.entry),
        };
        let joiner = Joiner { queue, ticket };
        let left = session.store.ask("leave", |store| store.leave(joiner, leaving)).await?;
        Ok((left, successor))
    };
    let again = |error: &StoreError, _| {
        trouble.note(error, session.shared.patience());
        true
    };
    let (left, tries) = session.ask_while(again, request).await;
    let (release, end) = match left {
        Ok((left, successor)) => {
            // An absent key is explained only by an earlier request that may have been applied.
            let released = left.existed || tries.doubtful;
            let end = own.map_or(End::Unclear, |own| own.end(held, left, successor.as_ref()));
            (if released { Release::Released } else { Release::Absent }, end)
        }
        Err(StoreError::SessionGone(reason)) => (Release::SessionOver(reason), End::Unclear),
        // Unreachable: the retries end only with one of the results above.
        Err(error) => (Release::Trying(Some(error.reason())), End::Unclear),
    };
    if let Some(own) = own {
        session.own_keys.end(own, end);
    }
    (release, tries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_errors_are_reported() {
        for (release, expected) in [
            (Release::Trying(None), "no reply yet"),
            (Release::Trying(Some("timeout".into())), "timeout"),
            (Release::Refused("no".into()), "no"),
            (Release::Released, "no reply yet"),
        ] {
            assert_eq!(release.trouble(), expected, "{release:?}");
        }
    }
}
