//! Connections: users, subscriptions, and queries about the server.

use super::{Args, not_an_integer, syntax_error};
use crate::{
    number,
    reply::Reply,
    state::{State, matches},
};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

fn word(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

/// Logs a connection in; returns `true` if the password is correct.
fn log_in(state: &mut State, connection: u64, user: &[u8], password: &[u8]) -> bool {
    let user = String::from_utf8_lossy(user).into_owned();
    let right = state.users.get(&user).is_some_and(|known| known.as_bytes() == password);
    if let Some(connection) = state.connections.get_mut(&connection).filter(|_| right) {
        connection.user = Some(user);
    }
    right
}

pub(super) fn auth(state: &mut State, connection: u64, args: Args<'_>) -> Reply {
    let (user, password) = match args {
        [_, password] => (&b"default"[..], password),
        [_, user, password] => (user.as_slice(), password),
        _ => return syntax_error(),
    };
    let right = log_in(state, connection, user, password);
    if right { Reply::ok() } else { Reply::error(WRONG_PASSWORD) }
}

pub(super) fn hello(state: &mut State, connection: u64, args: Args<'_>) -> Reply {
    let newer = match args.get(1).map(Vec::as_slice) {
        None => state.connections.get(&connection).is_some_and(|connection| connection.newer),
        Some(b"2") => false,
        Some(b"3") => true,
        Some(_) => return Reply::error("NOPROTO unsupported protocol version"),
    };
    let mut rest = args.get(2..).unwrap_or_default();
    while let Some((option, others)) = rest.split_first() {
        match (word(option).as_str(), others) {
            ("auth", [user, password, others @ ..]) => {
                if !log_in(state, connection, user, password) {
                    return Reply::error(WRONG_PASSWORD);
                }
                rest = others;
            }
            ("setname", [_, others @ ..]) => rest = others,
            _ => return syntax_error(),
        }
    }
    let Some(known) = state.connections.get_mut(&connection) else { return Reply::Nil };
    if known.user.is_none() {
        return Reply::error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    known.newer = newer;
    let text = |text: &str| Reply::text(text);
    Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text("8.0.2")),
        (text("proto"), Reply::Int(if newer { 3 } else { 2 })),
        (text("id"), Reply::Int(connection.cast_signed())),
        (text("mode"), text("standalone")),
        (text("role"), text("master")),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}

pub(super) fn client(state: &mut State, connection: u64, args: Args<'_>) -> Reply {
    match word(&args[1]).as_str() {
        "id" => Reply::Int(connection.cast_signed()),
        "setinfo" | "setname" => Reply::ok(),
        other => {
            let _ = state;
            Reply::error(format!("ERR unknown subcommand '{other}'. Try CLIENT HELP."))
        }
    }
}

pub(super) fn select(_: &mut State, _: u64, args: Args<'_>) -> Reply {
    match number::integer(&args[1]) {
        Some(0..16) => Reply::ok(),
        Some(_) => Reply::error("ERR DB index is out of range"),
        None => not_an_integer(),
    }
}

pub(super) fn ping(_: &mut State, _: u64, args: Args<'_>) -> Reply {
    args.get(1).map_or_else(|| Reply::Status("PONG".into()), Reply::text)
}

pub(super) fn monitor(state: &mut State, connection: u64, _: Args<'_>) -> Reply {
    if let Some(known) = state.connections.get_mut(&connection) {
        known.monitors = true;
    }
    Reply::ok()
}

pub(super) fn replicaof(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    match (word(&args[1]).as_str(), word(&args[2]).as_str()) {
        ("no", "one") => state.promote(),
        _ => state.is_replica = true,
    }
    Reply::ok()
}

pub(super) fn time(state: &mut State, _: u64, _: Args<'_>) -> Reply {
    let (seconds, micros) = (state.now.div_euclid(1_000_000), state.now.rem_euclid(1_000_000));
    Reply::Array(vec![Reply::text(seconds.to_string()), Reply::text(micros.to_string())])
}

pub(super) fn flushall(state: &mut State, _: u64, _: Args<'_>) -> Reply {
    state.keys.clear();
    Reply::ok()
}

pub(super) fn config(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    match (word(&args[1]).as_str(), &args[2..]) {
        ("get", patterns @ [_, ..]) => {
            let wanted = |name: &str| {
                patterns.iter().any(|it| matches(word(it).as_bytes(), name.as_bytes()))
            };
            let found = state.settings.iter().filter(|(name, _)| wanted(name));
            Reply::Map(found.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect())
        }
        ("set", pairs @ [_, _, ..]) if pairs.len().is_multiple_of(2) => {
            for pair in pairs.chunks_exact(2) {
                let value = String::from_utf8_lossy(&pair[1]).into_owned();
                let name = word(&pair[0]);
                if name == "requirepass" {
                    state.users.insert("default".into(), value.clone());
                }
                state.settings.insert(name, value);
            }
            Reply::ok()
        }
        ("resetstat", []) => {
            state.calls.clear();
            Reply::ok()
        }
        (other, _) => Reply::error(format!("ERR unknown subcommand '{other}'. Try CONFIG HELP.")),
    }
}

/// There are no replicas.
pub(super) fn wait(_: &mut State, _: u64, _: Args<'_>) -> Reply {
    Reply::Int(0)
}

pub(super) fn waitaof(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    if state.setting("appendonly") != "yes" {
        return match args[1].as_slice() {
            b"0" => Reply::Array(vec![Reply::Int(0), Reply::Int(0)]),
            _ => Reply::error(
                "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
            ),
        };
    }
    state.keys.flush();
    Reply::Array(vec![Reply::Int(1), Reply::Int(0)])
}

pub(super) fn publish(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    Reply::count(state.publish(&args[1], &args[2]))
}

/// Subscribes or unsubscribes. The client is notified for each channel, in RESP3 by a push.
fn listen(
    state: &mut State,
    connection: u64,
    kind: &str,
    channels: &[Vec<u8>],
    change: impl Fn(&mut crate::state::Connection, &[u8]),
) -> Reply {
    for channel in channels {
        let Some(known) = state.connections.get_mut(&connection) else { break };
        change(known, channel);
        let count = known.channels.len() + known.patterns.len();
        let words = vec![Reply::text(kind), Reply::text(channel), Reply::count(count)];
        state.pushes.push((connection, Reply::Push(words)));
    }
    // The pushes are the reply.
    Reply::Push(Vec::new())
}

pub(super) fn subscribe(state: &mut State, connection: u64, args: Args<'_>) -> Reply {
    listen(state, connection, "subscribe", &args[1..], |known, channel| {
        known.channels.insert(channel.to_vec());
    })
}

pub(super) fn psubscribe(state: &mut State, connection: u64, args: Args<'_>) -> Reply {
    listen(state, connection, "psubscribe", &args[1..], |known, channel| {
        known.patterns.insert(channel.to_vec());
    })
}

pub(super) fn unsubscribe(state: &mut State, connection: u64, args: Args<'_>) -> Reply {
    let all = state.connections.get(&connection);
    let all: Vec<_> = all.into_iter().flat_map(|known| known.channels.iter().cloned()).collect();
    let named = if args.len() > 1 { args[1..].to_vec() } else { all };
    listen(state, connection, "unsubscribe", &named, |known, channel| {
        known.channels.remove(channel);
    })
}
