//! The commands, by name.

mod hashes;
mod info;
mod server;
mod sets;
mod sorted;
mod text;

use crate::{reply::Reply, state::State};

pub(crate) type Args<'a> = &'a [Vec<u8>];

/// Runs a command with its arguments, of which the first is its name.
type Run = fn(&mut State, u64, Args<'_>) -> Reply;

pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The number of words including the name; a negative number is a minimum.
    arity: isize,
    /// Scripts may not call it.
    pub(crate) outside: bool,
    pub(crate) run: Run,
}

const fn command(name: &'static str, arity: isize, run: Run) -> Command {
    Command { name, arity, outside: false, run }
}

const fn outside(name: &'static str, arity: isize, run: Run) -> Command {
    Command { name, arity, outside: true, run }
}

#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    command("del", -2, text::del), command("exists", -2, text::exists),
    command("get", 2, text::get), command("keys", 2, text::keys),
    command("persist", 2, text::persist), command("pexpire", -3, text::pexpire),
    command("pttl", 2, text::pttl), command("rename", 3, text::rename),
    command("set", -3, text::set), command("type", 2, text::kind),
    command("hdel", -3, hashes::hdel), command("hexists", 3, hashes::hexists),
    command("hget", 3, hashes::hget), command("hgetall", 2, hashes::hgetall),
    command("hincrby", 4, hashes::hincrby), command("hlen", 2, hashes::hlen),
    command("hmget", -3, hashes::hmget), command("hrandfield", -2, hashes::hrandfield),
    command("hset", -4, hashes::hset), command("hsetnx", 4, hashes::hsetnx),
    command("hvals", 2, hashes::hvals),
    command("sadd", -3, sets::sadd),
    command("zadd", -4, sorted::zadd), command("zcard", 2, sorted::zcard),
    command("zcount", 4, sorted::zcount), command("zlexcount", 4, sorted::zlexcount),
    command("zrange", -4, sorted::zrange), command("zrangebylex", -4, sorted::zrangebylex),
    command("zrangebyscore", -4, sorted::zrangebyscore), command("zrem", -3, sorted::zrem),
    command("zremrangebyscore", 4, sorted::zremrangebyscore),
    command("zrevrangebylex", -4, sorted::zrevrangebylex), command("zscore", 3, sorted::zscore),
    outside("auth", -2, server::auth), outside("client", -2, server::client),
    outside("config", -2, server::config), command("flushall", -1, server::flushall),
    outside("hello", -1, server::hello), command("info", -1, info::info),
    outside("monitor", 1, server::monitor), command("ping", -1, server::ping),
    outside("psubscribe", -2, server::psubscribe), outside("replicaof", 3, server::replicaof),
    command("publish", 3, server::publish), outside("select", 2, server::select),
    outside("subscribe", -2, server::subscribe), command("time", 1, server::time),
    outside("unsubscribe", -1, server::unsubscribe), outside("wait", 3, server::wait),
    outside("waitaof", 4, server::waitaof),
];

/// Returns the command of this name, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Command {
    pub(crate) fn takes(&self, words: usize) -> bool {
        let words = words.cast_signed();
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    /// It may need memory.
    fn grows(&self) -> bool {
        matches!(self.name, "hincrby" | "hset" | "hsetnx" | "sadd" | "set" | "zadd")
    }

    fn writes(&self) -> bool {
        let others =
            ["del", "flushall", "hdel", "persist", "pexpire", "rename", "zrem", "zremrangebyscore"];
        self.grows() || others.contains(&self.name)
    }

    /// `MONITOR` does not show it: commands for administrators, and those with passwords.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.name, "auth" | "config" | "hello" | "monitor" | "replicaof")
    }

    /// Returns the error if the server does not run it now.
    pub(crate) fn refusal(&self, state: &State) -> Option<Reply> {
        if state.is_replica && self.writes() {
            return Some(Reply::error("READONLY You can't write against a read only replica."));
        }
        let is_full = state.is_full() && !state.may_grow && self.grows();
        is_full.then(|| Reply::error("OOM command not allowed when used memory > 'maxmemory'."))
    }

    pub(crate) fn wrong_arity(&self) -> Reply {
        Reply::error(format!("ERR wrong number of arguments for '{}' command", self.name))
    }
}

fn syntax_error() -> Reply {
    Reply::error("ERR syntax error")
}

fn not_an_integer() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}
