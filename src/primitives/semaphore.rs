//! A named counting semaphore.
//!
//! It is two queues. One is a mutex's, the *gate*: those who wait stand in it, first come, first
//! served, and only the first one of them goes on to the other, the *permits*, where those stand
//! who have some, and at most that one more. So however many wait, one of them has an eye on the
//! permits, and what happens there wakes nobody else; when it is in, it opens the gate for the
//! next.

use std::{cmp::Reverse, ops::Deref, time::Duration};

use crate::{
    backend::{Member, Write, name::Queue},
    error::{Error, Result},
    primitives::guard::LockGuard,
    queue::{
        self, Wait,
        acquire::Acquire,
        mode::{Mode, Rule, Verdict},
        view,
    },
    runtime::clock::Instant,
    session::Sessions,
};

/// The most permits a semaphore may have.
const MAX: u32 = 1_000_000;

/// What the name of a note begins with that says how many permits there are, after
/// [`Semaphore::set_permits`]; then come the number, those that it has replaced, and the note's
/// generation.
const LIMIT: &str = "limit=";

/// What the generation begins with: no number, so that builds which know of none pass over it.
const GENERATION: char = '@';

/// How many replaced numbers are remembered.
const REPLACED: usize = 8;

/// A named semaphore: so many permits for all clients together. Made by
/// [`Client::semaphore`](crate::Client::semaphore); cheap to make, to clone and to throw away.
///
/// First come, first served, also for those who want several at once: nobody passes them by. One
/// permit that is given back wakes at most one waiter, however many there are. A permit has what a
/// [`LockGuard`] has: a deadline, a fencing token, word of its loss; the permits of a crashed
/// holder come back with its session's TTL.
///
/// All clients have to name the same number of permits. As long as somebody holds or awaits some,
/// the store knows the number, and who comes with another one gets [`Error::PermitsDisagree`].
/// After [`set_permits`](Self::set_permits) the store knows it for ever.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::connect("memory://docs-semaphore").await?;
/// let connections = client.semaphore("db-connections", 3);
/// let one = connections.acquire().await?;
/// let two = connections.acquire_many(2).await?;
/// assert!(connections.try_acquire().await?.is_none());
/// two.release().await?;
/// assert!(connections.try_acquire().await?.is_some());
/// one.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    sessions: Sessions,
    name: String,
    permits: u32,
}

/// One or more permits of a [`Semaphore`]. It is a [`LockGuard`] that others may have beside it.
#[derive(Debug)]
#[must_use = "the permits are given back as soon as this is dropped"]
pub struct Permit {
    guard: LockGuard,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(sessions: Sessions, name: String, permits: u32) -> Self {
        Self { sessions, name, permits }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a permit.
    ///
    /// Where nobody else is, that is two round trips.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock): nothing stays behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.acquire().await?;
    /// assert!(permit.is_valid());
    /// permit.release().await
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_many(1).await
    }

    /// Waits for so many permits at once. Until they are there, nobody who came later gets any.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] for none, or for more than there are. [`Error::PermitsDisagree`]
    /// if other clients count on another number of permits. Otherwise as
    /// [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire-many").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.acquire_many(2).await?;
    /// assert_eq!(permit.permits(), 2);
    /// assert!(connections.try_acquire_many(2).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit> {
        self.get(permits, Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Takes a permit if there is one for which nobody waits; `None` otherwise. Then it has looked,
    /// and written nothing, unless another one came in the same instant.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many); [`Error::Unavailable`] if the store does not
    /// answer.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-acquire").await?;
    /// let connections = client.semaphore("db-connections", 1);
    /// let permit = connections.try_acquire().await?.expect("it is free");
    /// assert!(connections.try_acquire().await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// The same as [`try_acquire`](Self::try_acquire), for several.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-acquire-many").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.try_acquire_many(2).await?.expect("they are free");
    /// assert!(connections.try_acquire_many(2).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Permit>> {
        self.get(permits, Wait::No).await
    }

    /// The same as [`acquire`](Self::acquire), but for no longer than this; `None` when the time is
    /// up.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire-timeout").await?;
    /// let connections = client.semaphore("db-connections", 1);
    /// let permit = connections.acquire().await?;
    /// assert!(connections.acquire_timeout(Duration::from_millis(20)).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// The same as [`acquire_many`](Self::acquire_many), but for no longer than this; `None` when
    /// the time is up.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire-many-timeout").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.acquire_many(2).await?;
    /// let timeout = Duration::from_millis(20);
    /// assert!(connections.acquire_many_timeout(2, timeout).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<Permit>> {
        self.get(permits, Wait::at_most(timeout)).await
    }

    /// Changes the number of permits for all clients.
    ///
    /// The store keeps it, in a key that belongs to no session:
    /// `{namespace}/{name}!permits/limit=…`. A client that names the number that it has replaced
    /// goes along with the new one. With more permits, waiters are let in at once. With less,
    /// nobody loses a permit: nobody is let in until enough were given back.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] for none, or for more than 1,000,000. [`Error::PermitsDisagree`]
    /// if this client counts on another number than the others. Otherwise as
    /// [`try_acquire`](Self::try_acquire).
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
        let queue = self.permits()?;
        self.check(permits)?;
        self.sessions
            .shared()
            .runtime
            .within(async {
                let listing = view::look(&self.sessions, &queue, false).await?;
                let rule = self.rule(permits);
                let (mut limit, noted) =
                    (rule.agreed(&listing.members, &listing.notes)?, Limit::latest(&listing.notes));
                // The write is repeated until it is confirmed, so that it may land once more, after
                // later ones.
                limit.generation = noted.map_or(0, |noted| noted.generation).saturating_add(1);
                limit.replaced.retain(|number| *number != permits);
                if limit.number != permits {
                    limit.replaced.insert(0, limit.number);
                }
                limit.replaced.truncate(REPLACED);
                limit.number = permits;
                let (note, key) = (limit.note(), |note: &str| format!("{}/{note}", queue.dir()));
                let old =
                    listing.notes.iter().filter(|old| old.starts_with(LIMIT) && ***old != *note);
                let deletes = old.map(|old| Write::Delete { key: key(old) });
                let writes: Vec<_> =
                    deletes.chain([Write::Put { key: key(&note), value: Vec::new() }]).collect();
                let session = self.sessions.any().await?;
                // Twice is as good as once.
                let written = session.ask_briefly(|| session.store().commit(None, &writes)).await;
                written.map_err(|error| session.public(error)).map(drop)
            })
            .await
    }

    fn permits(&self) -> Result<Queue> {
        Ok(Queue::new(&self.sessions.shared().namespace, &self.name)?.of("permits"))
    }

    fn check(&self, permits: u32) -> Result<()> {
        let invalid =
            |reason: &str| Error::InvalidPermits { name: self.name.clone(), reason: reason.into() };
        match (permits, self.permits) {
            (0, _) | (_, 0) => {
                Err(invalid("none at all is not a number of permits; name at least one"))
            }
            (wanted, named) if wanted.max(named) > MAX => Err(invalid("at most 1,000,000")),
            _ => Ok(()),
        }
    }

    async fn get(&self, permits: u32, wait: Wait) -> Result<Option<Permit>> {
        self.check(permits)?;
        let queue = self.permits()?.labelled(&format!("{permits}of{}", self.permits));
        let hold = wait.bounds(&self.sessions, self.pass(&queue, permits, wait)).await?;
        Ok(hold.map(|hold| Permit { guard: LockGuard::new(hold), permits }))
    }

    async fn pass(&self, queue: &Queue, permits: u32, wait: Wait) -> Result<Option<queue::Hold>> {
        let rule = self.rule(permits);
        let mut patience = wait;
        if matches!(wait, Wait::No) || permits > self.permits {
            let listing = view::look(&self.sessions, queue, false).await?;
            match rule.judge(&listing.members, &listing.notes) {
                Verdict::Refused(error) => return Err(error),
                Verdict::Full | Verdict::Behind(_) if matches!(wait, Wait::No) => return Ok(None),
                _ => {}
            }
        }
        if matches!(wait, Wait::No) {
            // Nobody waits for permits, so the one at the gate is about to pass it.
            patience = Wait::Until(Instant::now() + self.sessions.shared().request_timeout);
        }
        let gate = Queue::new(&self.sessions.shared().namespace, &self.name)?.of("gate");
        let gate = Acquire { passing: true, ..Acquire::new(&gate, patience) };
        let Some(gate) = gate.from(&self.sessions).await? else { return Ok(None) };
        let taking = Acquire { mode: Mode::Shared(&rule), ..Acquire::new(queue, wait) };
        let taken = taking.from(&self.sessions).await;
        // Let go of in the background: the caller need not wait for that.
        drop(gate);
        taken
    }

    fn rule(&self, wanted: u32) -> Limited<'_> {
        Limited { name: &self.name, named: self.permits, wanted }
    }
}

/// How many permits there are.
#[derive(Debug, PartialEq, Eq)]
struct Limit {
    number: u32,
    /// The numbers that it has replaced, the latest first.
    replaced: Vec<u32>,
    /// Rises from one note to the next; zero where there is no note, or one of a build that knew of
    /// none.
    generation: u64,
}

impl Limit {
    fn noted(note: &str) -> Option<Self> {
        let parts: Vec<_> = note.strip_prefix(LIMIT)?.split('+').collect();
        let generation =
            parts.last().and_then(|last| last.strip_prefix(GENERATION)?.parse().ok()).unwrap_or(0);
        let mut numbers = parts.iter().map_while(|part| part.parse().ok());
        let number = numbers.next().filter(|number| *number > 0)?;
        Some(Self { number, replaced: numbers.collect(), generation })
    }

    /// The note that counts: of the highest generation. Two of one generation were written at the
    /// same time, and of them the smaller number counts, as either may be the one that others saw.
    fn latest(notes: &[Box<str>]) -> Option<Self> {
        let noted = notes.iter().filter_map(|note| Self::noted(note));
        noted.min_by_key(|limit| (Reverse(limit.generation), limit.number))
    }

    fn note(&self) -> String {
        let numbers: String = std::iter::once(&self.number)
            .chain(&self.replaced)
            .map(|number| format!("{number}+"))
            .collect();
        format!("{LIMIT}{numbers}{GENERATION}{}", self.generation)
    }
}

/// What a key's label says: how many permits it has or wants, and how many its owner thought there
/// were.
fn claimed(label: &str) -> Option<(u32, u32)> {
    let (wanted, of) = label.split_once("of")?;
    Some((wanted.parse().ok()?, of.parse().ok().filter(|of| *of > 0)?))
}

/// Goes in when there are so many permits left.
struct Limited<'a> {
    /// The semaphore's.
    name: &'a str,
    /// How many permits this client thinks there are.
    named: u32,
    wanted: u32,
}

impl Limited<'_> {
    /// How many permits there are, by what was noted or else by the first one there that names a
    /// number.
    fn agreed(&self, members: &[Member], notes: &[Box<str>]) -> Result<Limit> {
        let named = |number| Limit { number, replaced: Vec::new(), generation: 0 };
        let first = || members.iter().find_map(asked).map(|(_, number)| named(number));
        let limit = Limit::latest(notes).or_else(first).unwrap_or_else(|| named(self.named));
        if limit.number == self.named || limit.replaced.contains(&self.named) {
            return Ok(limit);
        }
        Err(Error::PermitsDisagree {
            name: self.name.to_owned(),
            agreed: limit.number,
            named: self.named,
        })
    }

    /// How many may be out together with those who are ahead. Without a note these may name
    /// different numbers: some were let in by a note that is gone, others are about to be refused.
    /// Each counts on no more being out than it named, so the smallest number counts.
    fn out_at_most(&self, ahead: &[Member], notes: &[Box<str>], agreed: u32) -> u32 {
        if Limit::latest(notes).is_some() {
            return agreed;
        }
        ahead.iter().filter_map(asked).map(|(_, number)| number).fold(agreed, u32::min)
    }
}

fn asked(member: &Member) -> Option<(u32, u32)> {
    claimed(member.label.as_deref()?)
}

impl Rule for Limited<'_> {
    fn judge(&self, ahead: &[Member], notes: &[Box<str>]) -> Verdict {
        let agreed = match self.agreed(ahead, notes) {
            Ok(limit) => limit.number,
            Err(error) => return Verdict::Refused(error),
        };
        let wanted = u64::from(self.wanted);
        if wanted > agreed.into() {
            let reason =
                format!("{wanted} were asked for, and there are {agreed}; set_permits makes more");
            return Verdict::Refused(Error::InvalidPermits { name: self.name.to_owned(), reason });
        }
        // A key of which nobody knows what it is for had better have one.
        let taken: u64 =
            ahead.iter().map(|member| asked(member).map_or(1, |(taken, _)| u64::from(taken))).sum();
        let room = taken + wanted <= self.out_at_most(ahead, notes, agreed).into();
        if room { Verdict::In } else { Verdict::Full }
    }
}

impl Permit {
    /// How many permits this is.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Gives the permits back: [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-release-permit").await?;
    /// let connections = client.semaphore("db-connections", 1);
    /// let permit = connections.acquire().await?;
    /// permit.release().await?;
    /// assert!(connections.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<()> {
        self.guard.unlock().await
    }
}

impl Deref for Permit {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

#[cfg(test)]
mod tests;
