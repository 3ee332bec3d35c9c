//! What becomes of a release.

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

/// What became of a release.
#[derive(Debug, Clone)]
pub(crate) enum Release {
    Trying(Option<String>),
    /// This release deleted the key.
    Released,
    /// The key was not there any more, though nobody but this guard should have deleted it.
    Absent,
    SessionOver(LostReason),
    /// The store does not let this user delete it. It is tried on, as rights may come back.
    Refused(String),
}

impl Release {
    /// What it is called by those who listen.
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
            _ => "no answer yet".to_owned(),
        }
    }
}

/// Where it is told that a release does not come about.
pub(super) struct Trouble {
    pub(super) progress: watch::Sender<Release>,
    pub(super) account: Handle,
}

impl Trouble {
    /// Takes note of why a request to release failed. Whatever it is, it is tried again.
    pub(super) fn note(&self, error: &StoreError, patience: Duration) {
        let refused = matches!(error, StoreError::Denied(_));
        let (reason, patience) = (error.reason(), (!refused).then_some(patience));
        self.account.unconfirmed(patience, || reason.clone());
        let release =
            if refused { Release::Refused(reason) } else { Release::Trying(Some(reason)) };
        self.progress.send_replace(release);
    }
}

/// Deletes the key: retries until the store confirms that it is gone, or the session is over and
/// its keys with it. Tells how many requests that took.
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
            // Only a request that may have been applied explains an absent key.
            let released = left.existed || tries.doubtful;
            let end = own.map_or(End::Unclear, |own| own.end(held, left, successor.as_ref()));
            (if released { Release::Released } else { Release::Absent }, end)
        }
        Err(StoreError::SessionGone(reason)) => (Release::SessionOver(reason), End::Unclear),
        // Never, as it goes on until then.
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
    fn trouble_of_a_release_is_reported() {
        for (release, told) in [
            (Release::Trying(None), "no answer yet"),
            (Release::Trying(Some("timeout".into())), "timeout"),
            (Release::Refused("no".into()), "no"),
            (Release::Released, "no answer yet"),
        ] {
            assert_eq!(release.trouble(), told, "{release:?}");
        }
    }
}
