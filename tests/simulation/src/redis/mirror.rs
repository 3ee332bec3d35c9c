//! The store's state for the checks of a history, read from the keys after each request.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use distlock_redis_model::Reply;

use crate::{
    server::{Change, Key},
    world::World,
};

pub(super) const NAMES: [&str; 4] = [
    "{distlock:/sim}:meta",
    "{distlock:/sim}:queue",
    "{distlock:/sim}:sessions",
    "{distlock:/sim}:data",
];

/// The elements of a sorted set or a hash as text; empty if it does not exist.
fn texts(reply: Reply) -> Vec<String> {
    let text = |reply| match reply {
        Reply::Text(text) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    };
    match reply {
        Reply::Array(all) => all.into_iter().map(text).collect(),
        Reply::Map(pairs) => {
            pairs.into_iter().flat_map(|(name, value)| [text(name), text(value)]).collect()
        }
        _ => Vec::new(),
    }
}

/// An entry: `{dir} {number} {session} {ticket} {since} {label}`.
fn read_entry(member: &str) -> Option<Key> {
    let mut words = member.splitn(6, ' ');
    let dir = words.next().filter(|dir| dir.starts_with('/'))?;
    let number: u64 = words.next()?.parse().ok()?;
    let (session, ticket, since, label) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    let dot = if label.is_empty() { "" } else { "." };
    Some(Key {
        name: format!("{dir}/{session}-{ticket}{dot}{label}").into(),
        dir: dir.into(),
        label: Some(label.to_owned()),
        revision: number,
        token: number,
        session: u64::from_str_radix(session, 16).ok()?,
        ticket: ticket.to_owned(),
        // The value is stored separately, and read later.
        value: since.into(),
        version: 1,
        crowded: false,
    })
}

impl World {
    /// Updates the state that the checks see from the server's keys.
    pub(super) fn mirror(&mut self) {
        let redis = self.redis();
        if redis.model.changes() == redis.mirrored {
            return;
        }
        redis.mirrored = redis.model.changes();
        let members = texts(redis.model.ask(&["ZRANGE", NAMES[1], "0", "-1"]));
        let data = texts(redis.model.ask(&["HGETALL", NAMES[3]]));
        let data: BTreeMap<_, _> =
            data.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let mut there = BTreeMap::new();
        for mut key in members.iter().filter_map(|member| read_entry(member)) {
            let record = format!("={} {:016}", key.dir, key.revision);
            if let Some((_, value)) = data.get(&record).and_then(|known| known.split_once(' ')) {
                key.value = value.into();
            }
            there.insert((Arc::clone(&key.name), key.revision), key);
        }
        self.mirror_keys(there);
        self.mirror_data(data);
    }

    fn mirror_keys(&mut self, mut there: BTreeMap<(Arc<str>, u64), Key>) {
        let mut changes = Vec::new();
        let mut gone = Vec::new();
        for key in self.server.now.keys() {
            match there.remove(&(Arc::clone(&key.name), key.revision)) {
                Some(same) if same.value == key.value => {}
                Some(written) => {
                    changes.push(Change { touched: true, ..Change::of(key) });
                    there.insert((Arc::clone(&written.name), written.revision), written);
                }
                None => {
                    changes.push(Change::deleted(key));
                    gone.push(Rc::clone(key));
                }
            }
        }
        let new: Vec<_> = there.into_values().map(Rc::new).collect();
        let known = |key: &Rc<Key>| changes.iter().any(|change| change.name == key.name);
        let joined: Vec<_> =
            new.iter().filter(|key| !known(key)).map(|key| Change::of(key)).collect();
        changes.extend(joined);
        if changes.is_empty() {
            return;
        }
        self.server.change(changes, |view| {
            gone.iter().for_each(|key| view.remove(key));
            new.into_iter().for_each(|key| view.put(key));
        });
        self.note_first();
        self.server.forget(400);
    }

    /// Records what guarded writes have stored.
    fn mirror_data(&mut self, data: BTreeMap<String, String>) {
        let revision = self.server.now.revision;
        for (key, value) in data.into_iter().filter(|(key, _)| key.starts_with("/data")) {
            let value = value.into_bytes();
            let known = self.redis().data.insert(key.clone(), value.clone());
            if known.as_ref() != Some(&value) {
                self.server.written.push((key, Rc::new(value), revision));
            }
        }
    }
}
