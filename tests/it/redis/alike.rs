//! Sends the same random requests to the model and to a server and compares their replies, error
//! texts and Lua's numbers. The requests go beyond those of the library.

use std::env;

use distlock_redis_model::Front;
use fastrand::Rng;
use redis::{RedisResult, Value, aio::MultiplexedConnection, cmd};
use tokio::time::timeout;

use super::monitor::Monitor;
use crate::common::{
    SOON,
    redis::{OPERATOR, dial},
};
use distlock_testkit::servers::redis_url;

/// The number of requests in one sequence.
const REQUESTS: usize = 25;

/// Commands and the kinds of their arguments: a key, a key whose members have one score, a field, a
/// value, a score, an end of a range by score or by bytes, a number, a time, or an option.
const COMMANDS: &[(&str, &str)] = &[
    ("SET", "kv"),
    ("SET", "kvo"),
    ("SET", "kvot"),
    ("GET", "k"),
    ("DEL", "kk"),
    ("EXISTS", "kk"),
    ("TYPE", "k"),
    ("PERSIST", "k"),
    ("HSET", "kfv"),
    ("HSET", "kfvfv"),
    ("HSETNX", "kfv"),
    ("HGET", "kf"),
    ("HMGET", "kff"),
    ("HDEL", "kff"),
    ("HEXISTS", "kf"),
    ("HINCRBY", "kfn"),
    ("HGETALL", "k"),
    ("HVALS", "k"),
    ("HLEN", "k"),
    ("ZADD", "ksm"),
    ("ZADD", "ksmsm"),
    ("ZADD", "kosm"),
    ("ZADD", "K0m0m0m"),
    ("ZREM", "Kmm"),
    ("ZREM", "kmm"),
    ("ZSCORE", "km"),
    ("ZCARD", "k"),
    ("ZCOUNT", "kee"),
    ("ZLEXCOUNT", "Kbb"),
    ("ZRANGE", "knn"),
    ("ZRANGE", "knnw"),
    ("ZRANGEBYLEX", "Kbb"),
    ("ZRANGEBYLEX", "Kbbl"),
    ("ZREVRANGEBYLEX", "Kbb"),
    ("ZREVRANGEBYLEX", "Kbbl"),
    ("ZRANGEBYSCORE", "kee"),
    ("ZRANGEBYSCORE", "keewl"),
    ("ZREMRANGEBYSCORE", "kee"),
    ("SADD", "kv"),
    ("SADD", "kvv"),
    ("RENAME", "kk"),
    ("PUBLISH", "kv"),
    ("NONSENSE", "kv"),
];

/// Scripts that process their arguments, replies and numbers.
const SCRIPTS: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local reply = redis.pcall(unpack(ARGV)) return { type(reply), reply }",
    "local reply = redis.pcall(unpack(ARGV)) return type(reply) == 'table' and reply.err or 1",
    "return { tonumber(ARGV[2]) or 'none', string.format('%016.0f', tonumber(ARGV[3]) or 7) }",
    "return tostring(tonumber(ARGV[2]) or 0.1)",
    "return redis.call('HSET', KEYS[1], 'n', (tonumber(ARGV[2]) or 3) / 4)",
    "return redis.call('ZADD', KEYS[1], (tonumber(ARGV[2]) or 1) * 1e15 + 0.5, 'far')",
    "return { 1, 2.9, -2.9, 'a', true, false, 'unseen' , nil, 'after' }",
    "return { ok = 'FINE' }",
    "return { err = 'MINE is wrong' }",
    "return redis.error_reply('MINE is wrong')",
    "return nonexistent",
    "local a = nil return a.b",
    "x = 1 return x",
    "return {",
    "return redis.call('NONSENSE')",
    "return redis.call('GET')",
    "return redis.call('SUBSCRIBE', 'a')",
    "return redis.call()",
    "return redis.call('SET', KEYS[1], {})",
    "return { string.match('a 12 b', '^(%S+) (%d+) (.*)$') }",
];

fn one_of<'a>(dice: &mut Rng, all: &[&'a str]) -> &'a str {
    all[dice.usize(..all.len())]
}

fn argument(dice: &mut Rng, kind: char, run: &str) -> Vec<String> {
    let ends = ["0", "1", "(1", "-inf", "+inf", "(3", "2.5", "-1", "x", "nan"];
    let bytes = ["-", "+", "[a", "(a", "[b", "(b", "[c", "(", "[", "b"];
    let word = match kind {
        'k' => return vec![format!("{run}-{}", dice.u8(..4))],
        // Members of different scores have no order by bytes.
        'K' => return vec![format!("{run}-even")],
        'f' => one_of(dice, &["f", "g", "h", "n"]),
        'v' => one_of(dice, &["", "1", "-5", "007", "x y", "9223372036854775807", "1.5", "\u{ff}"]),
        's' => one_of(dice, &["0", "1", "-1.5", "inf", "nan", "1e3", "2.5", "17", "x", "0.1"]),
        'm' => one_of(dice, &["a", "aa", "b", "c", "d"]),
        'e' => one_of(dice, &ends),
        'b' => one_of(dice, &bytes),
        'n' => one_of(dice, &["0", "1", "-1", "2", "-2", "10", "x", "1.5", "5"]),
        'o' => one_of(dice, &["NX", "XX", "GT", "LT", "CH", "PX", "wrong"]),
        // Long times, because the two do not expire keys at the same moment.
        't' => one_of(dice, &["100000", "0", "-1", "x", "1.5"]),
        'w' => "WITHSCORES",
        'l' => return vec!["LIMIT".into(), dice.u8(..3).to_string(), dice.i8(-1..3).to_string()],
        zero => return vec![zero.to_string()],
    };
    vec![word.to_owned()]
}

/// Returns a request, rarely with one argument too many or too few.
fn request(dice: &mut Rng, run: &str) -> Vec<String> {
    let (name, kinds) = COMMANDS[dice.usize(..COMMANDS.len())];
    let mut words = vec![name.to_owned()];
    for kind in kinds.chars() {
        words.extend(argument(dice, kind, run));
    }
    match dice.u8(..30) {
        0 => drop(words.pop()),
        1 => words.push("more".into()),
        _ => {}
    }
    if dice.u8(..3) > 0 {
        return words;
    }
    let lines = one_of(dice, SCRIPTS);
    let key = format!("{run}-{}", dice.u8(..4));
    let mut script = vec!["EVAL".to_owned(), lines.to_owned(), "1".to_owned(), key];
    script.extend(words);
    script
}

/// Formats a reply. The line numbers of scripts are removed from errors.
async fn reply(to: &MultiplexedConnection, words: &[String]) -> String {
    let mut command = cmd(&words[0]);
    command.arg(&words[1..]);
    let reply: RedisResult<Value> = command.query_async(&mut to.clone()).await;
    let text = match reply {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} {:?}", error.code(), error.detail()),
    };
    let mut parts = text.split("user_script:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "user_script:" + part.trim_start_matches(|digit: char| digit.is_ascii_digit())
    })
}

struct Both {
    urls: [String; 2],
    server: MultiplexedConnection,
    model: MultiplexedConnection,
}

impl Both {
    async fn connect() -> Self {
        let model = Front::start().expect("a port");
        let model = format!("redis://app:apppw@{}", model.address);
        let server = redis_url();
        Self {
            urls: [server.clone(), model.clone()],
            server: dial(&format!("{server}?protocol=resp3"), Some(OPERATOR)).await,
            model: dial(&format!("{model}?protocol=resp3"), Some(OPERATOR)).await,
        }
    }

    /// Returns the first difference of a sequence. `twist` changes the model's reply to a request.
    async fn difference(
        &self,
        seed: u64,
        twist: impl Fn(&str, String) -> String,
    ) -> Option<String> {
        let mut dice = Rng::with_seed(seed);
        let run = format!("alike-{:x}-{seed}", fastrand::u32(..));
        let (mut difference, mut requested) = (None, Vec::new());
        for _ in 0..REQUESTS {
            let words = request(&mut dice, &run);
            let from_server = reply(&self.server, &words).await;
            let from_model = twist(&words[0], reply(&self.model, &words).await);
            if from_server != from_model {
                difference = Some(format!(
                    "seed {seed}: {words:?}\n  server {from_server}\n  model  {from_model}\n  \
                     after {requested:?}"
                ));
                break;
            }
            requested.push(words.join(" "));
        }
        let keys = ["0", "1", "2", "3", "even"].map(|key| format!("{run}-{key}"));
        reply(&self.server, &[&["DEL".to_owned()], &keys[..]].concat()).await;
        difference
    }
}

/// Returns what a server shows of a sequence, without times and addresses.
async fn shown(url: &str, to: &MultiplexedConnection, seed: u64, run: &str) -> Vec<String> {
    let mut monitor = Monitor::start(url).await;
    let mut dice = Rng::with_seed(seed);
    for _ in 0..REQUESTS {
        reply(to, &request(&mut dice, run)).await;
    }
    let keys = ["0", "1", "2", "3", "even", "last"].map(|key| format!("{run}-{key}"));
    reply(to, &[&["DEL".to_owned()], &keys[..]].concat()).await;
    let mut all = Vec::new();
    loop {
        let line = timeout(SOON, monitor.line()).await.expect("the server shows all commands");
        // The server has other clients.
        if line.contains(run) {
            let (place, words) = line.split_once(']').expect("a client in brackets");
            let from = if place.ends_with("[0 lua") { "lua" } else { "client" };
            all.push(format!("{from}{words}"));
        }
        if line.contains(&keys[5]) {
            return all;
        }
    }
}

/// Returns the number of sequences: 10,000 were run on 2026-11-30.
fn sequences() -> u64 {
    env::var("DISTLOCK_SEQUENCES").map_or(300, |count| count.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_replies_as_the_server_does() {
    let both = Both::connect().await;
    let first = fastrand::u64(..1 << 40);
    let mut differences = Vec::new();
    for seed in first..first + sequences() {
        differences.extend(both.difference(seed, |_, reply| reply).await);
        assert!(differences.len() < 10, "{}", differences.join("\n"));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_shows_the_commands_that_the_server_shows() {
    let both = Both::connect().await;
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + sequences() / 10 {
        let run = format!("shown-{:x}-{seed}", fastrand::u32(..));
        let from_server = shown(&both.urls[0], &both.server, seed, &run).await;
        let from_model = shown(&both.urls[1], &both.model, seed, &run).await;
        assert_eq!(from_server, from_model, "seed {seed}");
        assert!(from_server.len() > REQUESTS / 2, "{from_server:?}");
    }
}

/// The comparison detects a model that is wrong about one command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_reply_of_the_model_is_found() {
    let both = Both::connect().await;
    for (command, right, wrong) in [
        ("HSET", "int(1)", "int(2)"),
        ("ZADD", "int(1)", "int(0)"),
        ("ZRANGEBYLEX", "array([])", "nil"),
        ("EVAL", "user_script:", "user_scripts:"),
    ] {
        let twist = |name: &str, reply: String| match name == command {
            true => reply.replace(right, wrong),
            false => reply,
        };
        let mut found = None;
        for seed in 0..500 {
            found = both.difference(seed, twist).await;
            if found.is_some() {
                break;
            }
        }
        assert!(found.is_some_and(|found| found.contains(command)), "{command} was not found");
    }
}
