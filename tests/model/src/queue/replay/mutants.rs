//! Changes of a trace that break a rule each, to show that the replay refuses them.

use super::{
    facts::{Facts, Key, spans},
    trace::{Event, How, Line, Number, Span},
};

/// A change of a trace. `None`: the trace has no event for it.
type Mutant = fn(&[Line]) -> Option<Vec<Line>>;

pub(super) const ALL: [(&str, Mutant); 12] = [
    ("two grants are swapped", swap_grants),
    ("a grant comes before its predecessor's deletion", grant_early),
    ("a token is used again", reuse_token),
    ("a grant has a key that never was", grant_unknown),
    ("a grant comes after its deadline", grant_late),
    ("a release is dropped", drop_release),
    ("a client releases another client's key", release_other),
    ("a release is confirmed before the deletion", confirm_early),
    ("a guard outlives its session", outlive_session),
    ("an eviction is reported while the key exists", false_alarm),
    ("a request to join creates a second key", second_key),
    ("a key is never deleted", keep_key),
];

/// A grant that waited: its line, and the keys of it and of the holder before it.
struct Handover<'a> {
    at: usize,
    own: Number,
    before: (Number, &'a Key),
}

fn facts(lines: &[Line]) -> Facts {
    Facts::of(lines, &spans(lines))
}

/// Returns the granted keys with their lines.
fn grants(lines: &[Line]) -> impl Iterator<Item = (usize, Number)> {
    lines.iter().enumerate().filter_map(|(at, line)| match line.event {
        Event::Granted { key, until, .. } if until != Some(0) => Some((at, key)),
        _ => None,
    })
}

/// Returns a grant in the middle of the trace that came after the release of the lock.
fn handover<'a>(lines: &[Line], facts: &'a Facts) -> Option<Handover<'a>> {
    let mut before = Vec::<(Number, &Key)>::new();
    let mut found = Vec::new();
    for (at, own) in grants(lines) {
        let key = facts.keys.get(&own)?;
        let last = before.iter().rev().find(|(_, last)| last.queue == key.queue);
        // Its key was in the queue before the holder's was deleted.
        found.extend(
            last.copied()
                .filter(|(number, last)| {
                    let released = last.grant.as_ref().is_some_and(|grant| grant.release.is_some());
                    let waited = last.gone.is_some_and(|gone| gone.span.from > key.put.to);
                    *number < own && released && waited && last.client != key.client
                })
                .map(|before| Handover { at, own, before }),
        );
        before.push((own, key));
    }
    let middle = found.len() / 2;
    found.into_iter().nth(middle)
}

fn at_place(lines: &[Line], wanted: impl Fn(&Event) -> bool) -> Option<usize> {
    lines.iter().position(|line| wanted(&line.event))
}

fn changed(lines: &[Line], at: usize, change: impl FnOnce(&mut Line)) -> Vec<Line> {
    let mut lines = lines.to_vec();
    change(&mut lines[at]);
    lines
}

fn without(lines: &[Line], drop: impl Fn(&Event) -> bool) -> Vec<Line> {
    lines.iter().filter(|line| !drop(&line.event)).cloned().collect()
}

/// Moves a line to a time, and to its place in the order of time.
fn moved(lines: &[Line], at: usize, to: u64) -> Vec<Line> {
    let mut lines = lines.to_vec();
    let mut line = lines.remove(at);
    line.span = Some(Span { from: to, to });
    let later = |line: &Line| line.span.is_some_and(|span| span.to > to);
    let place = lines.iter().position(later).unwrap_or(lines.len());
    lines.insert(place, line);
    lines
}

fn swap_grants(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { at, own, before: (other, _) } = handover(lines, &facts)?;
    let first = grants(lines).find(|(_, key)| *key == other)?.0;
    let mut lines = lines.to_vec();
    for (at, with) in [(at, other), (first, own)] {
        if let Event::Granted { key, name, .. } = &mut lines[at].event {
            (*key, *name) = (with, None);
        }
    }
    Some(lines)
}

fn grant_early(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { at, own, before: (_, before) } = handover(lines, &facts)?;
    let to = facts.keys.get(&own)?.put.to.max(before.put.to);
    (to < before.gone?.span.from).then(|| moved(lines, at, to))
}

fn reuse_token(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { at, before: (other, _), .. } = handover(lines, &facts)?;
    Some(changed(lines, at, |line| {
        if let Event::Granted { key, name, .. } = &mut line.event {
            (*key, *name) = (other, None);
        }
    }))
}

fn grant_unknown(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let own = handover(lines, &facts)?.own;
    let is_own = |event: &Event| match event {
        Event::Put { key, .. } | Event::Gone { key, .. } => *key == own,
        _ => false,
    };
    Some(without(lines, is_own))
}

fn grant_late(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { at, own, .. } = handover(lines, &facts)?;
    let joined = facts.keys.get(&own)?.put.from;
    let lines = without(lines, |event| matches!(event, Event::Until { key, .. } if *key == own));
    let at = at_place(&lines, |event| matches!(event, Event::Granted { key, .. } if *key == own))
        .unwrap_or(at);
    Some(changed(&lines, at, |line| {
        if let Event::Granted { until, .. } = &mut line.event {
            *until = Some(joined.saturating_sub(1).max(1));
        }
    }))
}

fn drop_release(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    // Its session exists later, and no operator deleted the key.
    let is_clear = |(_, number): &(usize, Number)| {
        facts.keys.get(number).is_some_and(|key| {
            let alive = facts.alive.get(&key.session).copied();
            let released = key.grant.as_ref().is_some_and(|grant| grant.release.is_some());
            released && !facts.may_be_evicted(key) && alive > key.gone.map(|gone| gone.span.to)
        })
    };
    let own = grants(lines).filter(is_clear).last()?.1;
    Some(without(lines, |event| match event {
        Event::Release { key, .. } | Event::Released { key } => *key == own,
        _ => false,
    }))
}

fn release_other(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { own, before: (number, _), .. } = handover(lines, &facts)?;
    let other = &facts.keys.get(&own)?.client;
    let is_it = |event: &Event| matches!(event, Event::Release { key, .. } if *key == number);
    Some(changed(lines, at_place(lines, is_it)?, |line| {
        if let Event::Release { client, .. } = &mut line.event {
            client.clone_from(other);
        }
    }))
}

fn confirm_early(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let own = lines.iter().enumerate().filter_map(|(at, line)| match line.event {
        Event::Released { key } => Some((at, facts.keys.get(&key)?)),
        _ => None,
    });
    // The deletion is certain to come after the release was requested.
    let early = |(at, key): (usize, &Key)| {
        let release = key.grant.as_ref()?.release?;
        (key.gone?.span.from > release).then_some((at, release))
    };
    let (at, release) = own.filter_map(early).next_back()?;
    Some(moved(lines, at, release))
}

fn outlive_session(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    // Its client did not release it, and no operator deleted it.
    let expired = |number: &Number| {
        let key = facts.keys.get(number)?;
        let grant = key.grant.as_ref()?;
        let over = grant.release.is_some() || grant.lost.is_some();
        let ended = facts.ended.contains_key(&key.client);
        let gone = key.gone?;
        let session = gone.how == How::Expired || gone.how == How::Unknown;
        (!over && ended && session && !facts.may_be_evicted(key)).then_some((*number, gone, key))
    };
    let (number, gone, key) = grants(lines).filter_map(|(_, key)| expired(&key)).last()?;
    let to = gone.span.to + 1;
    let mut lines =
        without(lines, |event| matches!(event, Event::Ended { client } if *client == key.client));
    let at =
        at_place(&lines, |event| matches!(event, Event::Granted { key, .. } if *key == number))?;
    let span = lines[at].span;
    lines.insert(at + 1, Line { span, event: Event::Until { key: number, until: to } });
    Some(lines)
}

fn false_alarm(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { at, own, .. } = handover(lines, &facts)?;
    let gone = facts.keys.get(&own)?.gone?.span.from;
    let span = lines[at].span.filter(|span| span.to < gone)?;
    let mut lines = lines.to_vec();
    let event = Event::Lost { key: own, evicted: true };
    lines.insert(at + 1, Line { span: Some(span), event });
    Some(lines)
}

fn second_key(lines: &[Line]) -> Option<Vec<Line>> {
    let facts = facts(lines);
    let Handover { own, .. } = handover(lines, &facts)?;
    let at = at_place(lines, |event| matches!(event, Event::Put { key, .. } if *key == own))?;
    let mut lines = lines.to_vec();
    let mut again = lines[at].clone();
    if let Event::Put { key, .. } = &mut again.event {
        *key += 1;
    }
    lines.insert(at + 1, again);
    Some(lines)
}

fn keep_key(lines: &[Line]) -> Option<Vec<Line>> {
    let own = grants(lines).last()?.1;
    Some(without(lines, |event| matches!(event, Event::Gone { key, .. } if *key == own)))
}
