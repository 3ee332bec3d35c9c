//! Asking a holder to let go.
//!
//! A request is a key in a side queue of the lock's. It names the holder's key and its number,
//! which comes to no other holder, so that no other takes it for its own.

use std::{future::pending, sync::Arc, time::Duration};

use crate::{
    backend::{Entry, Event, Join, Member, name::Queue},
    error::{Error, Result},
    primitives::{guard::LockGuard, viewer::Viewer},
    queue::{self, Failure, RELEASE_WAIT, StaleSessions, Wait, attempt::Attempt, view::View},
    runtime::{Backoff, clock::sleep},
    session::{Session, Sessions, Visit},
};

/// The longest reason, in bytes.
const MAX_REASON: usize = 1_000;

/// What a client says to its own holders that shuts down.
const SHUTDOWN: &str = "the client shuts down";

/// How long a request stands: a holder that has not heard it by then is not listening.
const LONGEST: Duration = Duration::from_secs(600);

/// Where the requests for a lock are.
fn side(lock: &Queue) -> Queue {
    lock.of("requests")
}

/// What another client asks of a holder: to let go. It got it by [`LockGuard::release_requested`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRequest {
    owner: String,
    reason: String,
}

impl ReleaseRequest {
    /// Why, in the words of the one who asks.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The [`owner`](crate::Builder::owner) of the client that asks.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn write(&self, holder: &Entry) -> Arc<[u8]> {
        let owner = self.owner.replace('\n', " ");
        format!("{}\n{}\n{owner}\n{}", holder.key, holder.token, self.reason).into_bytes().into()
    }

    /// The request, if it is meant for this holder.
    fn read(member: Member, holder: &Entry) -> Option<Self> {
        let value = member.detail?.value;
        let text = String::from_utf8_lossy(&value);
        let mut lines = text.splitn(4, '\n');
        let (key, token) = (lines.next()?, lines.next()?.parse::<u64>().ok()?);
        // Not every store tells others' numbers; where it does not, no key comes again.
        let meant = key == &*holder.key && (token == 0 || token == holder.token);
        let (owner, reason) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        meant.then_some(Self { owner, reason })
    }
}

/// Asks all holders of a lock to release it; `false`: there are none.
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
            // Those who are there are no hindrance.
            Ok(None) => return Err(Error::Closed),
            Err(Failure::StaleSession(_)) if stale.another() => {}
            Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
        }
    }
}

/// Keeps a request until it has no purpose any more.
async fn stand(attempt: Attempt, holder: Entry) {
    let session = Arc::clone(&attempt.session);
    tokio::select! {
        biased;
        _ = session.deadline.lost() => {}
        () = gone(&session, &holder) => {}
        () = sleep(LONGEST) => {}
    }
    attempt.release_within(RELEASE_WAIT).await;
}

/// Returns when the key is gone.
async fn gone(session: &Session, entry: &Entry) {
    let mut backoff = Backoff::default();
    loop {
        let event = match session.store.watch(entry, false).await {
            Ok(None) => return,
            Ok(Some(watch)) => tokio::select! {
                biased;
                event = watch => event,
                // Servers do lose watch events, see `queue/lock.rs`.
                () = sleep(session.recheck()) => { backoff = Backoff::default(); continue }
            },
            Err(error) => Err(error),
        };
        match event {
            Ok(Event::Deleted) => return,
            // It was only written to, and is watched anew at once.
            Ok(Event::Touched) => continue,
            Err(_) => {}
        }
        backoff.pause().await;
    }
}

impl LockGuard {
    /// Resolves when another client asks for the lock by
    /// [`Mutex::request_release`](crate::Mutex::request_release), or has asked already; and when
    /// this client [shuts down](crate::Client::shutdown).
    /// Whether to let go is the holder's to decide: nobody takes it by force.
    ///
    /// Requests that were meant for an earlier holder are not told. If the lock is lost it never
    /// resolves: race it with the work, or with [`lost`](Self::lost). As long as it is polled the
    /// session watches one directory; uncalled it costs nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe. As long as the request stands, which is as long as this lock is held, but no more than
    /// ten minutes, the next call tells it again.
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
            if session.shared.must_queue("requests to let go").is_err() {
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
        // The store's session goes on for a while when only this lock is lost.
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
            // Without its runtime the lock is lost.
            Err(_) => pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
