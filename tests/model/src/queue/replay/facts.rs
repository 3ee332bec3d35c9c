//! What a whole trace records of each key, session and call.

use std::collections::HashMap;

use super::trace::{Event, How, Line, Number, Span};

/// A key, from its creation to its deletion.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) put: Span,
    pub(super) queue: String,
    pub(super) session: String,
    pub(super) client: String,
    pub(super) name: String,
    pub(super) gone: Option<Gone>,
    pub(super) grant: Option<Grant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    /// Its place among the changes of the store.
    pub(super) place: usize,
    pub(super) span: Span,
    pub(super) how: How,
}

/// A guard, as its client has reported it.
#[derive(Debug)]
pub(super) struct Grant {
    /// The last deadline that the guard has reported. `None`: it is not recorded.
    pub(super) until: Option<u64>,
    /// When its client was about to release it, or knew of its loss.
    pub(super) release: Option<u64>,
    pub(super) lost: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) at: u64,
    pub(super) client: String,
    pub(super) queue: String,
}

/// What a trace records, by what it is about.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) keys: HashMap<Number, Key>,
    /// The last moment at which a session existed for certain.
    pub(super) alive: HashMap<String, u64>,
    /// The place of each session's last key among the changes.
    pub(super) last_puts: HashMap<String, usize>,
    /// The keys of each session that were granted a lock.
    pub(super) of_session: HashMap<String, Vec<Number>>,
    /// The deletions of an operator, by the name of the key.
    pub(super) evictions: HashMap<String, Vec<Span>>,
    /// The first call of each client on each queue.
    pub(super) first_calls: HashMap<(String, String), u64>,
    /// Clients record what they do, not only the store.
    pub(super) has_calls: bool,
    /// When each client's process ended.
    pub(super) ended: HashMap<String, u64>,
}

/// Returns when each line happened.
pub(super) fn spans(lines: &[Line]) -> Vec<Span> {
    let places = (0..).map(|place| Span { from: place, to: place });
    let mut spans: Vec<_> =
        lines.iter().zip(places).map(|(line, place)| line.span.unwrap_or(place)).collect();
    // The changes happen in the order of their lines.
    let changes: Vec<_> = (0..lines.len()).filter(|at| lines[*at].event.is_change()).collect();
    let mut from = 0;
    for change in &changes {
        from = from.max(spans[*change].from);
        spans[*change].from = from;
    }
    let mut to = u64::MAX;
    for change in changes.iter().rev() {
        to = to.min(spans[*change].to);
        spans[*change].to = to;
    }
    spans
}

impl Facts {
    pub(super) fn of(lines: &[Line], spans: &[Span]) -> Self {
        let mut facts = Self::default();
        for (place, (line, span)) in lines.iter().zip(spans).enumerate() {
            facts.add(&line.event, place, *span);
        }
        facts
    }

    fn add(&mut self, event: &Event, place: usize, span: Span) {
        match event.clone() {
            Event::Put { queue, key, session, client, name } => {
                self.last_puts.insert(session.clone(), place);
                let key_ = Key { put: span, queue, session, client, name, gone: None, grant: None };
                self.keys.entry(key).or_insert(key_);
            }
            Event::Gone { how, key } => {
                if let Some(key) = self.keys.get_mut(&key) {
                    key.gone.get_or_insert(Gone { place, span, how });
                }
            }
            Event::Alive { session } => {
                let alive = self.alive.entry(session).or_default();
                *alive = (*alive).max(span.from);
            }
            Event::Evict { name } => self.evictions.entry(name).or_default().push(span),
            Event::Call { client, queue, .. } => {
                self.has_calls = true;
                self.first_calls.entry((client, queue)).or_insert(span.from);
            }
            Event::Granted { key: number, until, .. } => {
                let Some(key) = self.keys.get_mut(&number) else { return };
                if key.grant.is_none() {
                    key.grant = Some(Grant { until, release: None, lost: None });
                    self.of_session.entry(key.session.clone()).or_default().push(number);
                }
            }
            Event::Until { key, until } => self.with_grant(key, |grant| {
                grant.until = grant.until.max(Some(until));
            }),
            Event::Lost { key, .. } => self.with_grant(key, |grant| {
                grant.lost.get_or_insert(span.from);
            }),
            Event::Release { key, .. } => self.with_grant(key, |grant| {
                grant.release.get_or_insert(span.from);
            }),
            Event::Ended { client } => drop(self.ended.insert(client, span.to)),
            Event::Returned { .. } | Event::Released { .. } => {}
        }
    }

    fn with_grant(&mut self, key: Number, change: impl FnOnce(&mut Grant)) {
        if let Some(grant) = self.keys.get_mut(&key).and_then(|key| key.grant.as_mut()) {
            change(grant);
        }
    }

    /// Returns `true` if an operator may have deleted this key, at this time.
    pub(super) fn may_be_evicted(&self, key: &Key) -> bool {
        let Some(gone) = key.gone else { return false };
        let evictions = self.evictions.get(&key.name).into_iter().flatten();
        gone.how == How::Deleted || evictions.into_iter().any(|by| by.meets(gone.span))
    }

    /// Returns until when a guard was valid for certain, unless its deadline is not recorded.
    pub(super) fn valid_until(&self, key: &Key) -> Option<u64> {
        let grant = key.grant.as_ref()?;
        let ended = self.ended.get(&key.client).copied();
        [grant.release, grant.lost, ended]
            .into_iter()
            .flatten()
            .fold(grant.until, |until, end| until.map(|until| until.min(end)))
    }
}
