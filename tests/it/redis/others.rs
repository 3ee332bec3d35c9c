//! Other libraries' locks, by the commands that those send: redis-py's and redsync's, and
//! Redisson's.

use distlock_testkit::servers::redis_url;
use redis::{FromRedisValue, Script, aio::MultiplexedConnection, cmd};

use crate::common::{Case, redis::dial};

/// As redis-py's `Lock` releases, and redsync.
const RELEASE: &str = "
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then return 0 end
    redis.call('del', KEYS[1])
    return 1";

/// As Redisson takes a lock: nothing, or for how long somebody else has it.
const REDISSON_TAKE: &str = "
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        if ARGV[1] ~= '' then redis.call('pexpire', KEYS[1], ARGV[1]) end
        return -3
    end
    return redis.call('pttl', KEYS[1])";

const REDISSON_RELEASE: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
    redis.call('del', KEYS[1])
    redis.call('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
    return 1";

pub(crate) const LAYOUTS: [&str; 2] = ["plain", "redisson"];

/// A program that locks as others do, beside clients of ours that bridge to it.
pub(crate) struct Others {
    pub(crate) layout: &'static str,
    prefix: String,
    connection: MultiplexedConnection,
}

impl Others {
    pub(crate) async fn new(layout: &'static str) -> Self {
        let prefix = format!("bridge:{:016x}:", fastrand::u64(..));
        Self { layout, prefix, connection: dial(&redis_url(), None).await }
    }

    /// What makes a URL one of a client that bridges to these.
    pub(crate) fn query(&self) -> String {
        format!("?bridge={}&bridge_prefix={}", self.layout, self.prefix)
    }

    pub(crate) fn builder(&self, t: &Case) -> distlock::Builder {
        t.builder_for(&format!("{}{}", t.store.url(), self.query()))
    }

    pub(crate) async fn client(&self, t: &Case) -> distlock::Client {
        t.connect(self.builder(t)).await
    }

    pub(crate) async fn mortal_client(&self, t: &Case) -> distlock::Client {
        t.connect(self.builder(t).session_ttl(t.store.min_ttl())).await
    }

    /// The key of a lock.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Takes a lock as `who`, for so many milliseconds or without an end.
    pub(crate) async fn take(&self, name: &str, who: &str, ttl: Option<u64>) -> bool {
        let (key, mut connection) = (self.key(name), self.connection.clone());
        if self.layout == "plain" {
            let mut set = cmd("SET");
            set.arg(key).arg(who).arg("NX");
            if let Some(ttl) = ttl {
                set.arg("PX").arg(ttl);
            }
            let taken: Option<String> = set.query_async(&mut connection).await.expect("told");
            return taken.is_some();
        }
        let ttl = ttl.map(|ttl| ttl.to_string()).unwrap_or_default();
        let script = Script::new(REDISSON_TAKE);
        let mut call = script.prepare_invoke();
        let left: i64 = call
            .key(key)
            .arg(ttl)
            .arg(format!("{who}:1"))
            .invoke_async(&mut connection)
            .await
            .expect("told");
        left == -3
    }

    /// Gives it back; tells whether it was `who`'s.
    pub(crate) async fn release(&self, name: &str, who: &str) -> bool {
        let (script, who) = match self.layout {
            "plain" => (RELEASE, who.to_owned()),
            _ => (REDISSON_RELEASE, format!("{who}:1")),
        };
        let (script, mut connection) = (Script::new(script), self.connection.clone());
        let mut call = script.prepare_invoke();
        let released: u8 =
            call.key(self.key(name)).arg(who).invoke_async(&mut connection).await.expect("told");
        released == 1
    }

    /// What a command tells whose first argument is a lock's key.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        command: &str,
        name: &str,
        arguments: &[&str],
    ) -> T {
        let mut call = cmd(command);
        call.arg(self.key(name)).arg(arguments);
        call.query_async(&mut self.connection.clone()).await.expect("told")
    }

    /// Those who wait by Redisson look again.
    pub(crate) async fn wake(&self, name: &str) {
        let mut publish = cmd("PUBLISH");
        publish.arg(format!("redisson_lock__channel:{{{}}}", self.key(name))).arg("0");
        let _: u8 = publish.query_async(&mut self.connection.clone()).await.expect("told");
    }

    pub(crate) async fn is_free(&self, name: &str) -> bool {
        self.ask::<u8>("EXISTS", name, &[]).await == 0
    }

    /// How many milliseconds it is taken for yet.
    pub(crate) async fn left(&self, name: &str) -> i64 {
        self.ask("PTTL", name, &[]).await
    }

    /// Deletes it, no matter who has it.
    pub(crate) async fn delete(&self, name: &str) {
        assert_eq!(self.ask::<u8>("DEL", name, &[]).await, 1, "{name} is free");
    }

    /// Somebody else has it now, no matter who had it.
    pub(crate) async fn seize(&self, name: &str) {
        self.delete(name).await;
        assert!(self.take(name, "thief", Some(60_000)).await);
    }
}
