//! The remaining work of an attempt that has ended: its release.

use std::sync::Arc;

use tokio::sync::watch;

use super::release::{Release, Trouble, release};
use crate::{
    backend::name::{Queue, Ticket},
    session::{
        Session, Tries,
        own_key::{End, OwnKey},
    },
    telemetry::{Account, Ended},
};

/// The release of an attempt that has ended. It has not been sent to the store yet.
#[derive(Debug)]
pub(super) struct PendingRelease {
    pub(super) session: Arc<Session>,
    pub(super) queue: Queue,
    pub(super) ticket: Ticket,
    pub(super) own: Option<Arc<OwnKey>>,
    /// The requests that created the key.
    pub(super) joining: Tries,
    /// The lock was held until the attempt ended.
    pub(super) held: bool,
    /// Another request that deletes the key of this ticket may be in flight.
    pub(super) expired: bool,
    /// A transaction of the user may delete the key too. An absent key is then no loss.
    pub(super) shared: bool,
    pub(super) account: Account,
}

impl PendingRelease {
    /// Deletes the key, however long that takes.
    ///
    /// Also returns the sender, because dropping it would wake the receiver's task.
    pub(super) fn run(
        self,
        progress: watch::Sender<Release>,
    ) -> impl Future<Output = (Release, watch::Sender<Release>)> + Send + use<> {
        let Self { session, queue, ticket, own, joining, held, expired, shared, account } = self;
        let releasing = session.shared.telemetry.releasing();
        async move {
            let trouble = Trouble { progress, account: account.handle() };
            let (release, tries) =
                release(&session, &queue, ticket, own.as_ref(), held, &trouble).await;
            drop(releasing);
            account.ended(match release {
                Release::Absent if shared => Ended::Released,
                _ => release.end(),
            });
            if held {
                session.deadline.released();
            }
            session.left(&queue, ticket);
            if joining.count == 1 && tries.count == 1 && !expired {
                session.reuse(ticket);
            }
            if joining.doubtful {
                // A join request may still create the key again.
                session.claims.doubt();
            }
            (release, trouble.progress)
        }
    }

    /// Runs the release in the background.
    pub(super) fn spawn(self) {
        let runtime = self.session.shared.runtime.clone();
        let work = self.run(watch::Sender::new(Release::Trying(None)));
        runtime.spawn(async move { drop(work.await) });
    }

    /// Records that one of the user's transactions deleted the key; sends no request.
    pub(super) fn was_made(self) {
        let Self { session, queue, ticket, own, joining, held, account, .. } = self;
        if let Some(own) = own {
            session.store.was_released(&queue, ticket, &own.entry);
            // The time of the deletion is unknown, so a local waiter has to read the queue.
            session.own_keys.end(&own, End::Unclear);
        }
        account.ended(Ended::Released);
        if held {
            session.deadline.released();
        }
        session.left(&queue, ticket);
        if joining.doubtful {
            session.claims.doubt();
        }
    }
}
