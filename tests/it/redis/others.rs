//! Locks of other libraries, by the commands that they send: redis-py and redsync, and Redisson.

use redis::{FromRedisValue, Script, aio::MultiplexedConnection, cmd};

use crate::common::{Case, redis::dial};

/// The script by which redis-py's `Lock` and redsync release.
const RELEASE: &str = "
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then return 0 end
    redis.call('del', KEYS[1])
    return 1";

/// The script by which Redisson acquires a lock; otherwise it returns the TTL of the other holder.
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

/// A program that locks as another library does, for clients that bridge to it.
pub(crate) struct Others {
    pub(crate) layout: &'static str,
    prefix: String,
    connection: MultiplexedConnection,
}

impl Others {
    pub(crate) async fn new(t: &Case, layout: &'static str) -> Self {
        let prefix = format!("bridge:{:016x}:", fastrand::u64(..));
        Self { layout, prefix, connection: dial(&t.store.url(), None).await }
    }

    /// Returns the URL query of a client that bridges to this program.
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

    /// Returns the key of a lock.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Acquires a lock as `owner`, for `ttl` milliseconds or without expiry. Returns `true` if it
    /// was free.
    pub(crate) async fn take(&self, name: &str, owner: &str, ttl: Option<u64>) -> bool {
        let (key, mut connection) = (self.key(name), self.connection.clone());
        if self.layout == "plain" {
            let mut set = cmd("SET");
            set.arg(key).arg(owner).arg("NX");
            if let Some(ttl) = ttl {
                set.arg("PX").arg(ttl);
            }
            let taken: Option<String> = set.query_async(&mut connection).await.expect("a reply");
            return taken.is_some();
        }
        let ttl = ttl.map(|ttl| ttl.to_string()).unwrap_or_default();
        let script = Script::new(REDISSON_TAKE);
        let mut call = script.prepare_invoke();
        let left: i64 = call
            .key(key)
            .arg(ttl)
            .arg(format!("{owner}:1"))
            .invoke_async(&mut connection)
            .await
            .expect("a reply");
        left == -3
    }

    /// Releases a lock and returns `true` if `owner` held it.
    pub(crate) async fn release(&self, name: &str, owner: &str) -> bool {
        let (script, owner) = match self.layout {
            "plain" => (RELEASE, owner.to_owned()),
            _ => (REDISSON_RELEASE, format!("{owner}:1")),
        };
        let (script, mut connection) = (Script::new(script), self.connection.clone());
        let mut call = script.prepare_invoke();
        let released: u8 = call
            .key(self.key(name))
            .arg(owner)
            .invoke_async(&mut connection)
            .await
            .expect("a reply");
        released == 1
    }

    /// Returns the reply to a command whose first argument is a lock's key.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        command: &str,
        name: &str,
        arguments: &[&str],
    ) -> T {
        let mut call = cmd(command);
        call.arg(self.key(name)).arg(arguments);
        call.query_async(&mut self.connection.clone()).await.expect("a reply")
    }

    /// Notifies Redisson's waiters, which query again.
    pub(crate) async fn wake(&self, name: &str) {
        let mut publish = cmd("PUBLISH");
        publish.arg(format!("redisson_lock__channel:{{{}}}", self.key(name))).arg("0");
        let _: u8 = publish.query_async(&mut self.connection.clone()).await.expect("a reply");
    }

    pub(crate) async fn is_free(&self, name: &str) -> bool {
        self.ask::<u8>("EXISTS", name, &[]).await == 0
    }

    /// Returns the key's remaining TTL in milliseconds.
    pub(crate) async fn left(&self, name: &str) -> i64 {
        self.ask("PTTL", name, &[]).await
    }

    /// Deletes the key, even if the lock is held.
    pub(crate) async fn delete(&self, name: &str) {
        assert_eq!(self.ask::<u8>("DEL", name, &[]).await, 1, "{name} is free");
    }

    /// Gives the lock to another holder, even if it is held.
    pub(crate) async fn seize(&self, name: &str) {
        self.delete(name).await;
        assert!(self.take(name, "thief", Some(60_000)).await);
    }
}
