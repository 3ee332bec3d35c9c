//! Reads and changes the number of permits.

use super::{
    Semaphore,
    limit::{self, LIMIT, Limit},
};
use crate::{backend::Write, error::Result, queue::snapshot};

impl Semaphore {
    /// Changes the number of permits for all clients.
    ///
    /// The store keeps the number in a key that belongs to no session:
    /// `{namespace}/{name}!permits/limit=…`. The new number replaces the number that was set last,
    /// the numbers which that number had replaced, and those that this client, the holders and the
    /// first waiter have passed. The new number applies to every client that passes a replaced
    /// number. The store keeps up to eight replaced numbers. If a client passes any other number,
    /// the smaller of the two applies.
    ///
    /// If the number increases, waiters are granted the new permits as soon as they are notified or
    /// poll. If it decreases, no holder loses a permit, and no waiter is granted one until enough
    /// permits have been released. If each of two calls reads the queue before the other call
    /// writes, the lower number applies until the next change.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) if the new number, or the number that
    /// this client has passed, is zero or above 1,000,000. Otherwise as [`queue`](Self::queue).
    /// After [`Unavailable`](crate::Error::Unavailable), the number may have changed, or may still
    /// change.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the number may or may not have changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-set-permits").await?;
    /// let jobs = client.semaphore("jobs", 1);
    /// let job = jobs.acquire().await?;
    /// jobs.set_permits(2).await?;
    /// let another = jobs.acquire().await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_permits(&self, permits: u32) -> Result<()> {
        let queue = self.permit_queue()?;
        self.check(permits)?;
        let sessions = &self.named.sessions;
        let looking = snapshot::look(sessions, &queue, false);
        let listing = sessions.shared().runtime.within(looking).await?;
        // The write is repeated until it is confirmed, so it may be applied again after later
        // writes. The note with the highest generation counts.
        let named = listing.members.iter().filter_map(limit::asked).map(|(_, number)| number);
        let named = std::iter::once(self.permits).chain(named);
        let limit = Limit::next(&listing.notes, named, permits);
        let (note, key) = (limit.note(), |note: &str| format!("{}/{note}", queue.dir()));
        let old = listing.notes.iter().filter(|old| old.starts_with(LIMIT) && ***old != *note);
        let deletes = old.map(|old| Write::Delete { key: key(old) });
        let put = Write::Put { key: key(&note), value: Vec::new() };
        let writes: Vec<_> = deletes.chain([put]).collect();
        // The write is idempotent.
        sessions.ask(|store| store.commit(&[], &writes)).await.map(drop)
    }

    /// Returns the number of permits that is in effect now.
    ///
    /// This is the number that [`set_permits`](Self::set_permits) last set. If a holder or the
    /// first waiter has passed a smaller number that `set_permits` has not replaced, the smaller
    /// number applies. If no number was set, the smallest number that was passed by a holder or by
    /// the first waiter applies. If there are no holders and no waiters either, the number that
    /// this client passes applies.
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue).
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-permits").await?;
    /// let jobs = client.semaphore("jobs", 10);
    /// assert_eq!(jobs.permits().await?, 10);
    /// jobs.set_permits(20).await?;
    /// assert_eq!(jobs.permits().await?, 20);
    /// # Ok(()) }
    /// ```
    pub async fn permits(&self) -> Result<u32> {
        let snapshot = snapshot::look_now(&self.named.sessions, &self.permit_queue()?).await?;
        let number = limit::number(&snapshot.members, &snapshot.notes, None);
        Ok(number.unwrap_or(self.permits))
    }
}
