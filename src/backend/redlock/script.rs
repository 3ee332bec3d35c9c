//! The scripts for a node, which it runs as one transaction each.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, FromRedisValue, RedisResult, Script, Value, aio::MultiplexedConnection};

use super::keys::{Key, counter_of};

/// The key of the TTLs on each node. Each client's TTL is stored with the end of the last lock that
/// may have it, in milliseconds.
const TTLS: &str = "{redlock}:ttls";

/// How long a counter is kept after its last grant. The clocks decide afterwards, so they must not
/// differ by more than this.
const COUNTER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

struct Source {
    text: &'static str,
    hash: String,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Source> = LazyLock::new(|| {
            let text = include_str!(concat!("scripts/", $file, ".lua"));
            Source { text, hash: Script::new(text).get_hash().to_owned() }
        });
    };
}

script!(TAKE, "take");
script!(CONFIRM, "confirm");
script!(RENEW, "renew");
script!(LOOK, "look");
script!(RELEASE, "release");

/// One call of a script.
#[derive(Clone)]
pub(super) struct Call {
    script: &'static LazyLock<Source>,
    keys: Vec<String>,
    arguments: Vec<String>,
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().to_string()
}

impl Call {
    fn new(script: &'static LazyLock<Source>) -> Self {
        Self { script, keys: vec![TTLS.to_owned()], arguments: Vec::new() }
    }

    fn about(mut self, keys: &[Key]) -> Self {
        self.keys.extend(keys.iter().map(|key| key.lock.as_ref().to_owned()));
        self.arguments.extend(keys.iter().map(|key| key.value.as_ref().to_owned()));
        self
    }

    /// `token`: the value to which the counter is raised, or 0.
    pub(super) fn take(key: &Key, ttl: Duration, token: u64) -> Self {
        let mut call = Self::new(&TAKE).about(std::slice::from_ref(key));
        call.keys.push(counter_of(&key.lock));
        call.arguments.extend([milliseconds(ttl), token.to_string(), milliseconds(COUNTER_KEPT)]);
        call
    }

    pub(super) fn confirm(key: &Key, token: u64) -> Self {
        let mut call = Self::new(&CONFIRM).about(std::slice::from_ref(key));
        call.keys.push(counter_of(&key.lock));
        call.arguments.extend([token.to_string(), milliseconds(COUNTER_KEPT)]);
        call
    }

    /// `again`: a missing value is set again.
    pub(super) fn renew(keys: &[Key], ttl: Duration, again: bool) -> Self {
        let mut call = Self::new(&RENEW);
        call.arguments.extend([milliseconds(ttl), u8::from(again).to_string()]);
        call.about(keys)
    }

    pub(super) fn look(keys: &[Key]) -> Self {
        Self::new(&LOOK).about(keys)
    }

    pub(super) fn release(keys: &[Key]) -> Self {
        Self::new(&RELEASE).about(keys)
    }

    /// Returns the call without setting missing values again.
    pub(super) fn without_taking(mut self) -> Self {
        if std::ptr::eq(self.script, &RENEW)
            && let Some(again) = self.arguments.get_mut(1)
        {
            "0".clone_into(again);
        }
        self
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.arguments);
        command
    }

    /// Runs the call. A node that has forgotten the script reports that before it does anything.
    pub(super) async fn run(&self, mut connection: MultiplexedConnection) -> RedisResult<Reply> {
        let by_hash = self.command("EVALSHA", &self.script.hash);
        let value: Value = match by_hash.query_async(&mut connection).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.command("EVAL", self.script.text).query_async(&mut connection).await?
            }
            answer => answer?,
        };
        let fields = Vec::<String>::from_redis_value(value)?;
        Reply::read(fields)
            .ok_or_else(|| (redis::ErrorKind::UnexpectedReturnType, "malformed reply").into())
    }
}

/// The reply of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The time of the node's clock.
    pub(super) time: Duration,
    /// The longest TTL of any client.
    pub(super) longest: Duration,
    fields: Vec<String>,
}

impl Reply {
    fn read(mut fields: Vec<String>) -> Option<Self> {
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let time = Duration::from_secs(number(0)?) + Duration::from_micros(number(1)?);
        let longest = Duration::from_millis(number(2)?);
        Some(Self { time, longest, fields: fields.split_off(3) })
    }

    fn field(&self, index: usize) -> &str {
        self.fields.get(index).map(String::as_str).unwrap_or_default()
    }

    fn number(&self, index: usize) -> u64 {
        self.field(index).parse().unwrap_or(0)
    }

    /// Returns `true` if the node has the value of the lock at this index of the request.
    pub(super) fn has(&self, index: usize) -> bool {
        matches!(self.field(index), "1" | "2")
    }

    /// Returns the counter of the lock's tokens, in a reply to an acquisition.
    pub(super) fn counter(&self) -> u64 {
        self.number(1)
    }

    /// Returns how long another client's value is kept, in a reply to a failed acquisition.
    pub(super) fn left(&self) -> Option<Duration> {
        self.field(2).parse().ok().map(Duration::from_millis)
    }

    /// Returns `true` if an acquisition has raised the counter to the proposed token.
    pub(super) fn raised(&self) -> bool {
        self.has(0) && self.field(3) == "1"
    }

    /// Returns the reply to a proposed token.
    pub(super) fn answer(&self) -> super::token::Answer {
        use super::token::Answer;
        match (self.field(0), self.field(1)) {
            ("1", "1") => Answer::Raised,
            ("1", _) => Answer::Ahead(self.number(2)),
            _ => Answer::NotOurs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redlock::token::Answer;

    fn read(text: &str) -> Option<Reply> {
        Reply::read(text.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn answers_are_read() {
        let reply = read("1700000000 250000 10000 1 77 -2").unwrap();
        assert_eq!(reply.time, Duration::from_millis(1_700_000_000_250));
        assert_eq!(reply.longest, Duration::from_secs(10));
        assert!(reply.has(0));
        assert_eq!(reply.counter(), 77);
        assert_eq!(reply.left(), None);
        assert_eq!(read("1 2 3 0 0 250 0").unwrap().left(), Some(Duration::from_millis(250)));
        let raised = ["1 77 0 1", "1 77 0 0", "0 77 9 0"];
        let raised = raised.map(|text| read(&format!("1 2 3 {text}")).unwrap().raised());
        assert_eq!(raised, [true, false, false]);
        let answers = ["1 1 5", "1 0 5", "0 0 5"]
            .map(|text| read(&format!("1 2 3 {text}")).unwrap().answer());
        assert_eq!(answers, [Answer::Raised, Answer::Ahead(5), Answer::NotOurs]);
        for nonsense in ["1 2", "a 2 3 1", "1 2 -1"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        assert_eq!(
            [0, 1, 2, 3].map(|of| read("1 2 3 1 2 0").unwrap().has(of)),
            [true, true, false, false]
        );
    }
}
