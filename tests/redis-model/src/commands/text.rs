//! Strings, and commands for keys of any kind.

use super::{Args, not_an_integer, syntax_error};
use crate::{
    keys::{Key, Value},
    number,
    reply::Reply,
    state::{State, WRONG_TYPE, matches},
};

pub(super) fn get(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    match state.key(&args[1]).map(|key| &key.value) {
        None => Reply::Nil,
        Some(Value::Text(text)) => Reply::text(text),
        Some(_) => Reply::error(WRONG_TYPE),
    }
}

pub(super) fn set(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let (mut only_new, mut only_there, mut expires) = (false, false, None);
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" if !only_there => only_new = true,
            b"xx" if !only_new => only_there = true,
            unit @ (b"px" | b"ex") if expires.is_none() => {
                let Some(time) = rest.next() else { return syntax_error() };
                expires = Some((time, if unit == b"px" { 1 } else { 1000 }));
            }
            _ => return syntax_error(),
        }
    }
    let expires = match expires.map(|(time, scale)| (number::integer(time), scale)) {
        None => None,
        Some((None, _)) => return not_an_integer(),
        Some((Some(time), scale)) => match time.checked_mul(scale).filter(|time| *time > 0) {
            Some(time) => Some(state.now_ms() + time),
            None => return Reply::error("ERR invalid expire time in 'set' command"),
        },
    };
    let there = state.key(&args[1]).is_some();
    if only_new && there || only_there && !there {
        return Reply::Nil;
    }
    state.keys.set(&args[1], Key { value: Value::Text(args[2].clone()), expires });
    Reply::ok()
}

pub(super) fn del(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    Reply::count(args[1..].iter().filter(|name| state.remove(name)).count())
}

pub(super) fn exists(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    Reply::count(args[1..].iter().filter(|name| state.key(name).is_some()).count())
}

pub(super) fn kind(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let kind = state.key(&args[1]).map_or("none", |key| key.value.kind());
    Reply::Status(kind.into())
}

pub(super) fn rename(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let Some(key) = state.key(&args[1]).cloned() else {
        return Reply::error("ERR no such key");
    };
    if args[1] != args[2] {
        state.remove(&args[1]);
        state.keys.set(&args[2], key);
    }
    Reply::ok()
}

pub(super) fn keys(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let now = state.now_ms();
    Reply::texts(state.keys.names(now).into_iter().filter(|name| matches(&args[1], name)))
}

pub(super) fn pexpire(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let Some(time) = number::integer(&args[2]) else { return not_an_integer() };
    if args.len() > 3 {
        return Reply::error(format!(
            "ERR Unsupported option {}",
            String::from_utf8_lossy(&args[3])
        ));
    }
    let Some(expires) = state.now_ms().checked_add(time) else {
        return Reply::error("ERR invalid expire time in 'pexpire' command");
    };
    if state.key(&args[1]).is_none() {
        return Reply::Int(0);
    }
    if time <= 0 {
        state.remove(&args[1]);
    } else if let Some(key) = state.key_mut(&args[1]) {
        key.expires = Some(expires);
    }
    Reply::Int(1)
}

pub(super) fn persist(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    if state.key(&args[1]).is_none_or(|key| key.expires.is_none()) {
        return Reply::Int(0);
    }
    if let Some(key) = state.key_mut(&args[1]) {
        key.expires = None;
    }
    Reply::Int(1)
}

pub(super) fn pttl(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let now = state.now_ms();
    match state.key(&args[1]).map(|key| key.expires) {
        None => Reply::Int(-2),
        Some(None) => Reply::Int(-1),
        Some(Some(expires)) => Reply::Int(expires - now),
    }
}
