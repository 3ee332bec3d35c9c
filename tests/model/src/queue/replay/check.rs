//! Checks each event of a trace against the rules, in the order of the lines.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    chain::Chain,
    facts::{Call, Facts, Gone, Key},
    trace::{Event, How, Line, Number, Span},
};
use crate::queue::waiter;

/// The reason why an event is impossible.
type Verdict = Result<(), String>;

/// What is in the store and what the clients do, at one event.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    facts: &'a Facts,
    queues: HashMap<&'a str, Queue>,
    /// The keys in the queues, by session.
    sessions: HashMap<&'a str, BTreeSet<Number>>,
    /// The client of each session.
    clients: HashMap<&'a str, &'a str>,
    /// The calls that have not returned.
    calls: HashMap<String, Call>,
    /// The keys with which a lock was granted or released.
    granted: HashSet<Number>,
    released: HashSet<Number>,
    longest: usize,
}

#[derive(Debug, Default)]
struct Queue {
    /// The keys, with their names.
    keys: BTreeMap<Number, String>,
    last: Option<Number>,
    /// For each key that may still be granted, the keys that were ahead of it.
    ahead: HashMap<Number, (Option<Number>, Vec<Number>)>,
    /// The guards that may be valid.
    holders: Vec<Number>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(facts: &'a Facts) -> Self {
        let (queues, sessions, clients, calls) = Default::default();
        let (granted, released) = Default::default();
        Self { facts, queues, sessions, clients, calls, granted, released, longest: 0 }
    }

    /// Returns the most keys that a queue had at once.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Takes an event. Returns why the rules do not allow it. All changes of the store come first.
    pub(super) fn take(&mut self, line: &Line, span: Span) -> Verdict {
        match &line.event {
            Event::Put { key, .. } => self.put(*key, span),
            Event::Gone { key, .. } => self.gone(*key),
            Event::Alive { .. } | Event::Evict { .. } | Event::Ended { .. } => Ok(()),
            Event::Call { call, client, queue } => {
                let new = Call { at: span.from, client: client.clone(), queue: queue.clone() };
                refuse(self.calls.insert(call.clone(), new).is_some(), || "it has begun".into())
            }
            Event::Granted { call, key, name, .. } => {
                self.granted(call.as_deref(), *key, name.as_deref(), span)
            }
            Event::Returned { call } => {
                refuse(self.calls.remove(call).is_none(), || "no such call has begun".into())
            }
            Event::Until { key, .. } => self.held(*key).map(drop),
            Event::Lost { key, evicted } => self.lost(*key, *evicted, span),
            Event::Release { key, client } => self.release(*key, client),
            Event::Released { key } => self.confirmed(*key, span),
        }
    }

    /// Returns why the trace may not end here.
    pub(super) fn end(&self) -> Verdict {
        let left = self.queues.values().flat_map(|queue| queue.keys.keys()).min();
        left.map_or(Ok(()), |key| Err(format!("key {key} is left, and no step deletes it")))
    }

    fn key(&self, key: Number) -> Result<&'a Key, String> {
        self.facts.keys.get(&key).ok_or_else(|| format!("key {key} never was in a queue"))
    }

    fn held(&self, key: Number) -> Result<&'a Key, String> {
        let found = self.key(key)?;
        refuse(!self.granted.contains(&key), || format!("key {key} was not granted the lock"))?;
        Ok(found)
    }

    // The store.

    fn put(&mut self, number: Number, span: Span) -> Verdict {
        let key = self.key(number)?;
        let queue = self.queues.entry(&key.queue).or_default();
        let last = queue.last.replace(number);
        refuse(last >= Some(number), || {
            format!("its number does not rise: key {} joined before", last.unwrap_or_default())
        })?;
        let twice = queue.keys.iter().find(|(_, name)| **name == key.name);
        refuse(twice.is_some(), || {
            let first = twice.map_or(0, |(first, _)| *first);
            format!("its attempt has key {first}, and a repeated request creates no second key")
        })?;
        let owner = *self.clients.entry(&key.session).or_insert(&key.client);
        refuse(owner != key.client, || format!("session {} is {owner}'s", key.session))?;
        if self.facts.has_calls {
            let call = self.facts.first_calls.get(&(key.client.clone(), key.queue.clone()));
            refuse(call.is_none_or(|at| *at > span.to), || {
                format!("{} had not requested to join {}", key.client, key.queue)
            })?;
        }
        let ahead = queue.keys.keys().copied().collect();
        queue.ahead.insert(number, (last, ahead));
        queue.keys.insert(number, key.name.clone());
        self.longest = self.longest.max(queue.keys.len());
        self.sessions.entry(&key.session).or_default().insert(number);
        Ok(())
    }

    fn gone(&mut self, number: Number) -> Verdict {
        let key = self.key(number)?;
        let queue = self.queues.entry(&key.queue).or_default();
        refuse(queue.keys.remove(&number).is_none(), || {
            format!("key {number} is not in queue {}", key.queue)
        })?;
        if let Some(own) = self.sessions.get_mut(&*key.session) {
            own.remove(&number);
        }
        let Some(gone) = key.gone else { return Ok(()) };
        match gone.how {
            How::Deleted => Ok(()),
            How::Left => self.may_have_left(number, key, gone),
            How::Expired | How::Closed => self.may_have_ended(key, gone),
            How::Unknown if self.facts.may_be_evicted(key) => Ok(()),
            How::Unknown => self.may_have_left(number, key, gone).or_else(|left| {
                self.may_have_ended(key, gone).map_err(|ended| {
                    format!(
                        "no operator deleted it, its client did not ({left}), and its session \
                             did not end ({ended})"
                    )
                })
            }),
        }
    }

    /// The client of a key deletes it: a waiter at any time, and a holder to release the lock.
    fn may_have_left(&self, number: Number, key: &Key, gone: Gone) -> Verdict {
        let Some(grant) = key.grant.as_ref().filter(|_| self.facts.has_calls) else {
            return Ok(());
        };
        match grant.release {
            None => Err(format!("{} holds the lock with key {number}", key.client)),
            Some(at) if at > gone.span.to => {
                Err(format!("{} releases key {number} only later", key.client))
            }
            Some(_) => Ok(()),
        }
    }

    /// The store ends the session of a key: it has passed each deadline, as no client counts on a
    /// session for longer than the store keeps it.
    fn may_have_ended(&self, key: &Key, Gone { span, place, .. }: Gone) -> Verdict {
        let Key { session, .. } = key;
        let alive = self.facts.alive.get(session).is_some_and(|at| *at > span.to);
        let joined = self.facts.last_puts.get(session).is_some_and(|last| *last > place);
        refuse(alive || joined, || format!("session {session} still exists later"))?;
        for other in self.sessions.get(&**session).into_iter().flatten() {
            let kept = self.facts.keys.get(other).and_then(|key| key.gone);
            refuse(
                kept.is_none_or(|gone| !gone.span.meets(span) && !gone.how.ends_session()),
                || format!("key {other} of session {session} still exists"),
            )?;
        }
        let of_session = self.facts.of_session.get(session).into_iter().flatten();
        for (number, key) in of_session.filter_map(|of| Some((of, self.facts.keys.get(of)?))) {
            let until = self.facts.valid_until(key).unwrap_or_default();
            refuse(!waiter::may_expire(until.saturating_sub(span.to)), || {
                format!("the guard of key {number} is valid until {until}")
            })?;
        }
        Ok(())
    }

    // The clients.

    fn granted(
        &mut self,
        call: Option<&str>,
        number: Number,
        name: Option<&str>,
        span: Span,
    ) -> Verdict {
        let key = self.key(number)?;
        refuse(key.put.from > span.to, || format!("key {number} joins only later"))?;
        refuse(name.is_some_and(|name| name != key.name), || {
            format!("key {number} is another attempt's, {}", key.name)
        })?;
        refuse(!self.granted.insert(number), || format!("key {number} was granted before"))?;
        let mut since = key.put.from;
        if let Some(call) = call {
            let Call { at, client, queue } =
                self.calls.remove(call).ok_or_else(|| format!("no call {call} waits"))?;
            refuse(client != key.client, || format!("key {number} is {}'s", key.client))?;
            refuse(queue != key.queue, || format!("key {number} is in queue {}", key.queue))?;
            refuse(key.put.to < at, || format!("key {number} joined before the call began"))?;
            since = since.max(at);
        }
        // A guard that never was valid has deadline 0.
        let until = key.grant.as_ref().and_then(|grant| grant.until).filter(|until| *until > 0);
        let left = until.map_or(u64::MAX, |until| until.saturating_sub(since));
        refuse(!waiter::may_be_granted(left, |_| true), || {
            format!("its deadline {} passed before key {number} joined", until.unwrap_or_default())
        })?;
        self.first(number, key, span)?;
        self.alone(number, key, span)
    }

    /// The waiter has seen that no key is ahead of its own.
    fn first(&mut self, own: Number, key: &'a Key, span: Span) -> Verdict {
        let queue = self.queues.entry(&key.queue).or_default();
        let (last, ahead) = queue
            .ahead
            .remove(&own)
            .ok_or_else(|| format!("key {own} did not join queue {}", key.queue))?;
        let gone_by_now = |key: &Number| {
            let gone = self.facts.keys.get(key).and_then(|key| key.gone);
            gone.filter(|gone| gone.span.from <= span.to).map(|gone| (gone.place, *key))
        };
        let keys = || ahead.iter().chain([&own]);
        let mut deleted: Vec<_> = keys().filter_map(gone_by_now).collect();
        deleted.sort_unstable();
        let deleted: Vec<_> = deleted.into_iter().map(|(_, key)| key).collect();
        let chain = Chain::new(own, last, keys().copied(), &deleted);
        refuse(!chain.allows_grant(), || match ahead.iter().find(|key| !deleted.contains(key)) {
            Some(first) => format!("key {first} is ahead of key {own}"),
            None => format!("key {own} was deleted while another was ahead"),
        })
    }

    /// No other guard is valid, unless an operator deleted the key of one of them.
    fn alone(&mut self, own: Number, key: &'a Key, span: Span) -> Verdict {
        let (facts, now) = (self.facts, span.to);
        let queue = self.queues.entry(&key.queue).or_default();
        let evicted = |key: &Key| {
            facts.may_be_evicted(key) && key.gone.is_some_and(|gone| gone.span.from <= now)
        };
        let is_valid = |key: &Key| {
            let left = facts.valid_until(key).unwrap_or_default().saturating_sub(now);
            !waiter::has_lapsed(left, |_| true)
        };
        queue.holders.retain(|holder| facts.keys.get(holder).is_some_and(is_valid));
        let sound = |holder: &&Number| facts.keys.get(holder).is_some_and(|key| !evicted(key));
        let other = queue.holders.iter().find(sound).copied();
        queue.holders.push(own);
        let both = other.filter(|_| !evicted(key) && is_valid(key));
        refuse(both.is_some(), || {
            format!("key {} holds the lock as well", both.unwrap_or_default())
        })
    }

    fn lost(&self, number: Number, evicted: bool, span: Span) -> Verdict {
        let key = self.held(number)?;
        let there = key.gone.is_none_or(|gone| gone.span.from > span.to);
        refuse(evicted && there, || format!("key {number} exists"))
    }

    fn release(&mut self, number: Number, client: &str) -> Verdict {
        let key = self.held(number)?;
        refuse(key.client != client, || format!("key {number} is {}'s", key.client))?;
        refuse(!self.released.insert(number), || format!("key {number} was released before"))
    }

    fn confirmed(&self, number: Number, span: Span) -> Verdict {
        let key = self.held(number)?;
        refuse(!self.released.contains(&number), || format!("key {number} was not released"))?;
        let there = key.gone.is_none_or(|gone| gone.span.from > span.to);
        refuse(there, || format!("key {number} exists"))
    }
}

fn refuse(bad: bool, reason: impl FnOnce() -> String) -> Verdict {
    if bad { Err(reason()) } else { Ok(()) }
}
