//! A session: the locks that one client holds on all nodes. No node knows of the session itself.

mod take;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;

use self::take::Taken;
use super::{
    contended::Contended,
    keys::{Key, Keys, lock_of},
    nodes::Nodes,
    release::{give_back, give_up},
    round::{Outcome, Round, VALUE},
    script::Call,
};
use crate::{
    backend::{
        Durability, Entry, Event, Extras, FailoverBehavior, Join, Joined, Joiner, LeaveOutcome,
        LeaveRequest, LockStore, LossListener, Queue, Result, SequencePoint, Specifics, Standing,
        StoreError, Watch, contract::store::Losses,
    },
    lost::LostReason,
    runtime::{clock, mutex::Mutex, random},
};

/// The largest number of locks in one script.
const AT_ONCE: usize = 256;

#[derive(Debug)]
pub(super) struct RedlockStore {
    nodes: Nodes,
    keys: Arc<Mutex<Keys>>,
    ttl: Duration,
    contended: Contended,
    losses: Losses,
    moments: AtomicU64,
}

impl RedlockStore {
    pub(super) fn new(nodes: Nodes, ttl: Duration) -> Self {
        Self {
            nodes,
            keys: Arc::new(Mutex::new(Keys::new(ttl))),
            ttl,
            contended: Contended::default(),
            losses: Losses::default(),
            moments: AtomicU64::new(0),
        }
    }

    /// Returns the longest TTL of any client, as far as the nodes have reported.
    pub(super) fn longest_ttl(&self) -> Duration {
        self.nodes.longest()
    }

    fn moment(&self) -> SequencePoint {
        SequencePoint(self.moments.fetch_add(1, Relaxed))
    }

    /// Returns an error with the problems of the nodes.
    fn unavailable(&self, what: &str) -> StoreError {
        let mut reason = what.to_owned();
        for trouble in self.nodes.troubles() {
            reason = format!("{reason}; {trouble}");
        }
        StoreError::Unavailable(reason.into())
    }

    /// Returns the error of a request without a majority.
    fn failed(&self, what: &str, round: &Round) -> StoreError {
        match round.denial() {
            Some(denial) => StoreError::Denied(denial.into()),
            None => self.unavailable(what),
        }
    }

    /// Gives up an attempt, without waiting for the nodes' replies.
    fn give_up(&self, key: &Key, having: &[usize]) {
        self.keys.lock().end(&key.name);
        give_up(&self.nodes, key, having, self.ttl);
    }

    /// Asks all nodes to renew these locks. Returns the votes on each lock.
    async fn renew(&self, keys: &[Key], sent: Duration) -> Vec<Round> {
        let mut rounds = vec![Round::new(self.nodes.len()); keys.len()];
        // A value that a node has lost is set there again while the lock is certainly ours, unless
        // that could hide that the node has forgotten the locks of other clients.
        let valid = {
            let all = self.keys.lock();
            let now = clock::now();
            keys.iter().all(|key| now < all.valid(key.proved))
        };
        let again = |node| valid && self.nodes.spoiled(node).is_none();
        let mut answers = self.nodes.renew(|node| Call::renew(keys, self.ttl, again(node)));
        while rounds.iter().any(|round| round.kept() == Outcome::Open) || rounds.is_empty() {
            let Some(said) = answers.next().await else { break };
            for (index, round) in rounds.iter_mut().enumerate() {
                round.count(said.vote(|reply| reply.has(index)));
            }
        }
        let mut all = self.keys.lock();
        for (key, round) in keys.iter().zip(&rounds) {
            if round.kept() == Outcome::Ours {
                all.renewed(&key.name, sent);
            }
        }
        rounds
    }

    /// Checks that a majority of the nodes replies.
    async fn beat(&self) -> Result<Duration> {
        let mut round = Round::new(self.nodes.len());
        let sent = clock::now();
        let mut answers = self.nodes.ask_all(&Call::renew(&[], self.ttl, false));
        while let Some(said) = answers.next().await {
            round.count(said.vote(|_| true));
            if round.heard() > self.nodes.len() / 2 {
                return Ok(self.keys.lock().granted(sent));
            }
        }
        Err(self.failed("fewer than a majority of the nodes replied", &round))
    }

    /// Marks the lock as lost, and notifies its holder. Until the holder has been notified,
    /// renewals of the other locks do not extend the session's deadline.
    fn lose(&self, key: &Key, reason: LostReason) {
        key.lose();
        if self.losses.report(&key.name, reason) {
            // The holder releases it as usual.
            self.keys.lock().leave(key.ticket);
        }
    }

    /// Notifies the holders of lost locks. Returns a description of a lock whose state is still
    /// open.
    fn tell_losses(&self, keys: &[Key], rounds: &[Round]) -> Option<String> {
        let mut open = None;
        for (key, round) in keys.iter().zip(rounds) {
            match round.kept() {
                Outcome::Ours => {}
                Outcome::NotOurs => self.lose(key, LostReason::Evicted),
                Outcome::Open | Outcome::Unknown => {
                    open = Some(format!("{}: {}", key.name, round.words(VALUE)));
                }
            }
        }
        let overdue = self.keys.lock().overdue(clock::now());
        for key in &overdue {
            self.lose(key, LostReason::DeadlinePassed);
        }
        let is_open = |key: &&Key| !overdue.iter().any(|overdue| overdue.name == key.name);
        open.filter(|_| {
            let mut unproved = keys.iter().zip(rounds).filter(|(key, _)| is_open(key));
            unproved.any(|(_, round)| matches!(round.kept(), Outcome::Open | Outcome::Unknown))
        })
    }
}

/// Returns a random number in hexadecimal digits, followed by text for operators.
fn value(text: &[u8]) -> String {
    let id: String = random::bits().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{id}\n{}", String::from_utf8_lossy(text))
}

#[async_trait]
impl LockStore for RedlockStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let keys = self.keys.lock().held();
        if keys.is_empty() {
            return self.beat().await;
        }
        let sent = clock::now();
        // Send all parts at once. A script with more locks would block other clients of the node
        // for too long.
        let parts = keys.chunks(AT_ONCE).map(|part| self.renew(part, sent));
        let rounds: Vec<_> =
            futures_util::future::join_all(parts).await.into_iter().flatten().collect();
        match self.tell_losses(&keys, &rounds) {
            None => Ok(self.keys.lock().granted(sent)),
            Some(open) => Err(match rounds.iter().find_map(Round::denial) {
                Some(denial) => StoreError::Denied(denial.into()),
                None => self.unavailable(&open),
            }),
        }
    }

    async fn enqueue(&self, joiner: Joiner<'_>, text: &[u8], join: Join) -> Result<Joined> {
        if join != Join::IfFree {
            let source = "Redlock has no queues".into();
            return Err(StoreError::Fatal { operation: "joining a queue", source });
        }
        let sent = clock::now();
        let key = self.keys.lock().begin(joiner, &value(text), sent);
        let mut having = Vec::new();
        let refused = match self.take(&key, &mut having).await {
            Taken::Token(token) if self.keys.lock().hold(&key.name, clock::now()) => {
                return Ok(Joined::Queued {
                    entry: Entry::new(key.name, token),
                    standing: Standing::First,
                    at: self.moment(),
                    // This says nothing about the session's other locks, which must be renewed in
                    // time.
                    alive: None,
                    alone: true,
                });
            }
            Taken::Token(_) => Err(self.unavailable("acquiring the lock took too long")),
            Taken::Occupied => Ok(Joined::Occupied),
            Taken::Not(why) => Err(self.unavailable(&why)),
            Taken::Denied(why) => Err(StoreError::Denied(why.into())),
        };
        self.give_up(&key, &having);
        refused
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let known = self.keys.lock().get(&entry.key).cloned();
        let Some(key) = known.filter(|key| !key.is_lost()) else { return Ok(Standing::Evicted) };
        let mut round = Round::new(self.nodes.len());
        let mut answers = self.nodes.ask_all(&Call::look(std::slice::from_ref(&key)));
        while round.kept() == Outcome::Open
            && let Some(said) = answers.next().await
        {
            round.count(said.vote(|reply| reply.has(0)));
        }
        match round.kept() {
            Outcome::Ours => Ok(Standing::First),
            Outcome::NotOurs => {
                self.lose(&key, LostReason::Evicted);
                Ok(Standing::Evicted)
            }
            Outcome::Open | Outcome::Unknown => Err(self.failed(&round.words(VALUE), &round)),
        }
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let held = self.keys.lock().held();
        Ok(held.into_iter().filter(|key| !key.is_lost()).map(|key| key.name).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        let known = self.keys.lock().get(&entry.key).cloned();
        let Some(key) = known.filter(|key| !key.is_lost()) else { return Ok(None) };
        let mut losses = key.losses();
        Ok(Some(Box::pin(async move {
            // The lock was released, so it can no longer be lost.
            let _given_back = losses.wait_for(|lost| *lost).await;
            Ok(Event::Deleted)
        })))
    }

    async fn leave(&self, joiner: Joiner<'_>, _: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        let left = |existed| LeaveOutcome { existed, successor: false, at: self.moment() };
        let Some(key) = self.keys.lock().leave(joiner.ticket) else { return Ok(left(false)) };
        let rounds = give_back(&self.nodes, std::slice::from_ref(&key), self.ttl).await;
        let ended = clock::now().saturating_sub(key.proved) > self.ttl.mul_f64(1.1);
        match rounds.first() {
            Some(round) if round.freed() == Outcome::Ours => {
                self.keys.lock().end(&key.name);
                Ok(left(round.was_ours() && !key.is_lost()))
            }
            // Each node has ended it by its own clock.
            _ if ended => {
                self.keys.lock().end(&key.name);
                Ok(left(!key.is_lost()))
            }
            round => {
                let words = round.map(|round| round.words(VALUE)).unwrap_or_default();
                Err(StoreError::Unknown(self.unavailable(&words).reason().into()))
            }
        }
    }

    async fn close(&self) -> Result<()> {
        let keys = self.keys.lock().all();
        let parts = keys.chunks(AT_ONCE).map(|part| give_back(&self.nodes, part, self.ttl));
        let rounds = futures_util::future::join_all(parts).await.into_iter().flatten();
        let mut all_freed = true;
        for (key, round) in keys.iter().zip(rounds) {
            if round.freed() == Outcome::Ours {
                self.keys.lock().end(&key.name);
            } else {
                all_freed = false;
            }
        }
        match all_freed {
            true => Ok(()),
            false => Err(self.unavailable("not all releases were confirmed")),
        }
    }
}

impl Specifics for RedlockStore {
    fn on_loss(&self, listener: LossListener) {
        self.losses.listen(listener);
    }

    fn free_within(&self, queue: &Queue) -> Option<Duration> {
        self.contended.free_within(&lock_of(queue))
    }
}

#[async_trait]
impl Extras for RedlockStore {
    async fn durability(&self) -> Result<Durability> {
        self.beat().await?;
        let (nodes, majority) = (self.nodes.len(), self.nodes.len() / 2 + 1);
        // Two majorities may have only one node in common.
        let mut reasons = vec![format!(
            "locks are exclusive unless a node that stores the lock is flushed (FLUSHALL), or has \
             its clock changed unnoticed, within one TTL. A lock that all {nodes} nodes store \
             stays exclusive if this happens to fewer than {majority} of them"
        )];
        reasons.extend(self.nodes.troubles());
        Ok(Durability { exclusive: true, failover: FailoverBehavior::Continues, reasons })
    }
}
