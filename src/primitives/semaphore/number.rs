//! How many permits there are: to tell and to change.

use super::{
    Semaphore,
    limit::{self, LIMIT, Limit},
};
use crate::{backend::Write, error::Result, queue::snapshot};

impl Semaphore {
    /// Changes the number of permits for all clients, whatever it was before.
    ///
    /// The store keeps it, in a key that belongs to no session:
    /// `{namespace}/{name}!permits/limit=…`. It replaces the number that was set before, those that
    /// are named in the queue at this moment, and the one that this client names: who names one of
    /// these goes along with the new one. For one that names yet another number the smaller of the
    /// two counts. With more permits, waiters are let in at once. With less, nobody loses a permit:
    /// nobody is let in until enough were given back.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for none, or for more than 1,000,000.
    /// Otherwise as [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may or may not have been done. Two of them at once: the lower number counts
    /// until the next change.
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
        // The write is repeated until it is confirmed, so that it may land once more, after later
        // ones: the note with the highest generation counts.
        let named = listing.members.iter().filter_map(limit::asked).map(|(_, number)| number);
        let named = std::iter::once(self.permits).chain(named);
        let limit = Limit::next(&listing.notes, named, permits);
        let (note, key) = (limit.note(), |note: &str| format!("{}/{note}", queue.dir()));
        let old = listing.notes.iter().filter(|old| old.starts_with(LIMIT) && ***old != *note);
        let deletes = old.map(|old| Write::Delete { key: key(old) });
        let put = Write::Put { key: key(&note), value: Vec::new() };
        let writes: Vec<_> = deletes.chain([put]).collect();
        // Twice is as good as once.
        sessions.ask(|store| store.commit(&[], &writes)).await.map(drop)
    }

    /// How many permits count now: what was set last, or the smallest number that anybody names who
    /// has permits or waits for them; without either, the one that this client names.
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
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
