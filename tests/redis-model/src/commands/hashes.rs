//! Hashes.

use super::Args;
use crate::{
    keys::Value,
    number,
    reply::Reply,
    state::{State, WRONG_TYPE},
};

type Field = (Vec<u8>, Vec<u8>);
type Fields = Vec<Field>;

/// Returns the fields of a key; none if it does not exist.
fn fields<'a>(state: &'a mut State, name: &[u8]) -> Result<&'a [Field], Reply> {
    match state.key(name).map(|key| &key.value) {
        None => Ok(&[]),
        Some(Value::Hash(fields)) => Ok(fields),
        Some(_) => Err(Reply::error(WRONG_TYPE)),
    }
}

/// Returns the fields of a key for a change.
fn fields_mut<'a>(state: &'a mut State, name: &[u8]) -> Result<&'a mut Fields, Reply> {
    match state.value_mut(name, Value::Hash(Vec::new())) {
        Value::Hash(fields) => Ok(fields),
        _ => Err(Reply::error(WRONG_TYPE)),
    }
}

fn value<'a>(fields: &'a [Field], name: &[u8]) -> Option<&'a Vec<u8>> {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
}

/// Sets a field; returns `true` if it is new.
fn put(fields: &mut Fields, name: &[u8], value: &[u8]) -> bool {
    if let Some((_, old)) = fields.iter_mut().find(|(field, _)| field == name) {
        *old = value.to_vec();
        return false;
    }
    fields.push((name.to_vec(), value.to_vec()));
    true
}

fn reply_with<T>(found: Result<T, Reply>, reply: impl FnOnce(T) -> Reply) -> Reply {
    found.map_or_else(|error| error, reply)
}

fn text_or_nil(value: Option<&Vec<u8>>) -> Reply {
    value.map_or(Reply::Nil, Reply::text)
}

pub(super) fn hget(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| text_or_nil(value(fields, &args[2])))
}

pub(super) fn hmget(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| {
        Reply::Array(args[2..].iter().map(|name| text_or_nil(value(fields, name))).collect())
    })
}

pub(super) fn hexists(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| {
        Reply::Int(i64::from(value(fields, &args[2]).is_some()))
    })
}

pub(super) fn hlen(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| Reply::count(fields.len()))
}

pub(super) fn hvals(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| {
        Reply::texts(fields.iter().map(|(_, value)| value.clone()))
    })
}

pub(super) fn hgetall(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| {
        let pairs = fields.iter().map(|(name, value)| (Reply::text(name), Reply::text(value)));
        Reply::Map(pairs.collect())
    })
}

/// Returns one of the fields: the first, where a real server picks a random one.
pub(super) fn hrandfield(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields(state, &args[1]), |fields| {
        fields.first().map_or(Reply::Nil, |(name, _)| Reply::text(name))
    })
}

pub(super) fn hset(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    if !args.len().is_multiple_of(2) {
        return Reply::error("ERR wrong number of arguments for 'hset' command");
    }
    reply_with(fields_mut(state, &args[1]), |fields| {
        let pairs = args[2..].chunks_exact(2);
        Reply::count(pairs.filter(|pair| put(fields, &pair[0], &pair[1])).count())
    })
}

pub(super) fn hsetnx(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(fields_mut(state, &args[1]), |fields| {
        if value(fields, &args[2]).is_some() {
            return Reply::Int(0);
        }
        put(fields, &args[2], &args[3]);
        Reply::Int(1)
    })
}

pub(super) fn hdel(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    match fields(state, &args[1]) {
        Ok([]) => return Reply::Int(0),
        Ok(_) => {}
        Err(error) => return error,
    }
    let deleted = reply_with(fields_mut(state, &args[1]), |fields| {
        let before = fields.len();
        fields.retain(|(name, _)| !args[2..].contains(name));
        Reply::count(before - fields.len())
    });
    state.keys.tidy(&args[1]);
    deleted
}

pub(super) fn hincrby(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let Some(by) = number::integer(&args[3]) else { return super::not_an_integer() };
    let known = match fields(state, &args[1]) {
        Ok(fields) => value(fields, &args[2]).cloned(),
        Err(error) => return error,
    };
    let Some(known) = known.map_or(Some(0), |text| number::integer(&text)) else {
        return Reply::error("ERR hash value is not an integer");
    };
    let Some(sum) = known.checked_add(by) else {
        return Reply::error("ERR increment or decrement would overflow");
    };
    reply_with(fields_mut(state, &args[1]), |fields| {
        put(fields, &args[2], sum.to_string().as_bytes());
        Reply::Int(sum)
    })
}
