//! Requests to holders to release their locks.
//!
//! A request is a key in a side queue of the lock. It names the holder's key and token. No other
//! holder has both, so no other holder takes the request for its own.

use std::{future::pending, sync::Arc, time::Duration};

use crate::{
    backend::{Entry, Event, Fate, Join, Member, Present, name::Queue},
    error::{Error, Result},
    primitives::{guard::LockGuard, viewer::Viewer},
    queue::{self, Failure, RELEASE_WAIT, StaleSessions, Wait, attempt::Attempt, view::View},
    runtime::{Backoff, clock::sleep, jittered},
    session::{Session, Sessions, Visit, watch_budget::NO_ROOM},
};

/// The longest reason, in bytes.
const MAX_REASON: usize = 1_000;

/// The reason that a client that shuts down gives its own holders.
const SHUTDOWN: &str = "the client is shutting down";

/// How long a request is stored. A holder that has not received it by then does not watch for
/// requests.
const LONGEST: Duration = Duration::from_secs(600);

/// Returns the queue of the requests for a lock.
fn side(lock: &Queue) -> Queue {
    lock.of("requests")
}

/// Describes a request to release a lock.
///
/// Returned by [`LockGuard::release_requested`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRequest {
    owner: String,
    reason: String,
}

impl ReleaseRequest {
    /// Returns the reason that the requesting client gave.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the [`owner`](crate::Builder::owner) of the requesting client.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn write(&self, holder: &Entry) -> Arc<[u8]> {
        let owner = self.owner.replace('\n', " ");
        format!("{}\n{}\n{owner}\n{}", holder.key, holder.token, self.reason).into_bytes().into()
    }

    /// Parses the request, if it is meant for this holder.
    fn read(member: Member, holder: &Entry) -> Option<Self> {
        let value = member.detail?.value;
        let text = String::from_utf8_lossy(&value);
        let mut lines = text.splitn(4, '\n');
        let (key, token) = (lines.next()?, lines.next()?.parse::<u64>().ok()?);
        // A store that does not show the tokens of other clients returns zero. There, no key is
        // used twice.
        let meant = key == &*holder.key && (token == 0 || token == holder.token);
        let (owner, reason) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        meant.then_some(Self { owner, reason })
    }
}

/// Asks all holders of a lock to release it. `false` if there are no holders.
pub(super) async fn ask(viewer: &Viewer, reason: &str) -> Result<bool> {
    if reason.len() > MAX_REASON {
        return Err(Error::invalid("reason", "must be at most 1,000 bytes"));
    }
    let (sessions, runtime) = (&viewer.sessions, &viewer.sessions.shared().runtime);
    let asking = async {
        let (queue, holders) = viewer.holders().await?;
        let side = side(queue);
        for holder in &holders {
            let attempt = post(sessions, &side, holder, reason).await?;
            runtime.spawn(stand(attempt, holder.clone()));
        }
        Ok(!holders.is_empty())
    };
    runtime.within(asking).await
}

async fn post(sessions: &Sessions, side: &Queue, holder: &Entry, reason: &str) -> Result<Attempt> {
    let mut stale = StaleSessions::default();
    loop {
        let mut attempt = Attempt::new(sessions, side).await?;
        let owner = attempt.session.shared.owner.clone();
        attempt.value = Some(ReleaseRequest { owner, reason: reason.to_owned() }.write(holder));
        match queue::join(attempt, Wait::No, Join::Always).await {
            Ok(Some(entered)) => return Ok(entered.attempt),
            // `Join::Always` joins behind any other entry.
            Ok(None) => return Err(Error::Closed),
            Err(Failure::StaleSession(_)) if stale.another() => {}
            Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
        }
    }
}

/// Keeps a request in the store as long as it has a purpose.
async fn stand(attempt: Attempt, holder: Entry) {
    let Some(own) = attempt.own_key().map(|own| own.entry.clone()) else { return };
    let session = Arc::clone(&attempt.session);
    tokio::select! {
        biased;
        _ = session.deadline.lost() => {}
        () = gone(&session, &holder, &own) => {}
        () = sleep(LONGEST) => {}
    }
    attempt.release_within(RELEASE_WAIT).await;
}

/// Returns when the holder's key is deleted.
///
/// Without room to watch the holder's key, the client reads it about every second, together with
/// the own key of the request.
async fn gone(session: &Session, holder: &Entry, own: &Entry) {
    let dir = holder.key.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut backoff = Backoff::default();
    loop {
        let Some(_permit) = session.watch_budget.watch(dir, &holder.key) else {
            match session.store.present(own, holder).await {
                Ok(Present { own: true, ahead: Fate::There }) => {
                    backoff = Backoff::default();
                    sleep(jittered(NO_ROOM)).await;
                }
                Ok(_) => return,
                Err(_) => backoff.pause().await,
            }
            continue;
        };
        let event = match session.store.watch(holder, false).await {
            Ok(None) => return,
            Ok(Some(watch)) => tokio::select! {
                biased;
                event = watch => event,
                // Servers do lose watch events: see `queue/lock.rs`.
                () = sleep(session.recheck()) => { backoff = Backoff::default(); continue }
            },
            Err(error) => Err(error),
        };
        match event {
            Ok(Event::Deleted) => return,
            // The key was only written to. It is watched again at once.
            Ok(Event::Touched) => continue,
            Err(_) => {}
        }
        backoff.pause().await;
    }
}

impl LockGuard {
    /// Resolves when a client requests the release of this lock.
    ///
    /// The future also resolves for a [`Mutex::request_release`](crate::Mutex::request_release)
    /// that was sent before this call, and when this client [shuts down](crate::Client::shutdown).
    /// The holder decides whether to release the lock. A request never forces the release, but a
    /// shutdown closes the client once its grace period has passed.
    ///
    /// Requests to an earlier holder are ignored. A request to a writer does not reach the reader
    /// that the writer becomes by a [downgrade](crate::WriteGuard::downgrade). If the lock is lost,
    /// the future never resolves: await it in a `select!` with the work, or with
    /// [`lost`](Self::lost). On Redlock, the future resolves only when this client shuts down.
    ///
    /// # Cancel safety
    ///
    /// Safe. The next call returns the same request as long as the request is stored. A request is
    /// stored until the holder's key is deleted or the requesting client's session ends, but for at
    /// most ten minutes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-release-requested").await?;
    /// let guard = client.mutex("batch").lock().await?;
    /// # assert!(client.mutex("batch").request_release("deployment").await?);
    /// tokio::select! {
    ///     request = guard.release_requested() => {
    ///         println!("{} asks: {}", request.owner(), request.reason());
    ///     }
    ///     reason = guard.lost() => println!("lost: {reason}"),
    /// }
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn release_requested(&self) -> ReleaseRequest {
        let (session, side) = (&self.held.session, side(&self.held.queue));
        let watching = async {
            if session.shared.must_queue("release requests").is_err() {
                return pending().await;
            }
            let visit = Visit::new(session, &side);
            let mut view = View::new(side.clone(), false);
            while let Ok(snapshot) = view.next(session, visit.is_some()).await {
                if let Some(request) = snapshot
                    .members
                    .into_iter()
                    .find_map(|member| ReleaseRequest::read(member, &self.held.own.entry))
                {
                    return request;
                }
            }
            pending().await
        };
        // The session outlives the loss of this one lock.
        let requested = session.shared.runtime.within(async {
            Ok(tokio::select! {
                biased;
                _ = self.lost() => pending().await,
                () = session.shared.drained() => ReleaseRequest {
                    owner: session.shared.owner.clone(),
                    reason: SHUTDOWN.to_owned(),
                },
                request = watching => request,
            })
        });
        match requested.await {
            Ok(request) => request,
            // The lock is lost if its runtime has ended.
            Err(_) => pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
