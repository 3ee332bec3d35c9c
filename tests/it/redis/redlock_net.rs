//! RedLock.net, by its commands on one server, and distlock exclude each other: see
//! <https://github.com/samcook/RedLock.net>.

use redis::cmd;

use crate::{
    common::{connect, own::TTL, redis::OPERATOR},
    redis::own::Server,
};

/// The prefix of its `DefaultRedisKeyFormat`, `redlock:{0}`.
const PREFIX: &str = "redlock:";

const UNLOCK: &str = "
    if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
    return 0";

const EXTEND: &str = "
    local current = redis.call('get', KEYS[1])
    if current == false then
        return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1 or 0
    elseif current == ARGV[1] then
        return redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return -1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_net_and_distlock_exclude_each_other() {
    let server = Server::start().await;
    // The usual user has no rights to RedLock.net's keys.
    let ((user, password), address) = (OPERATOR, server.address);
    let url = format!("redis://{user}:{password}@{address}?bridge=plain&bridge_prefix={PREFIX}");
    let client = connect(&url, TTL).await;
    let key = format!("{PREFIX}a");
    let take = async || -> bool {
        let mut set = cmd("SET");
        set.arg(&key).arg("theirs").arg("PX").arg(60_000).arg("NX");
        server.ask::<Option<String>>(&set).await.is_some()
    };
    let script = async |text: &str, arguments: &[&str]| -> i64 {
        server.ask(cmd("EVAL").arg(text).arg(1).arg(&key).arg(arguments)).await
    };
    for _ in 0..3 {
        let guard = client.mutex("a").lock().await.expect("granted");
        assert!(!take().await);
        assert_eq!(script(EXTEND, &["theirs", "60000"]).await, -1, "the lock is ours");
        assert_eq!(script(UNLOCK, &["theirs"]).await, 0, "the lock is ours");
        assert!(guard.is_valid());
        guard.unlock().await.expect("released");
        assert!(take().await);
        assert!(client.mutex("a").try_lock().await.expect("a reply").is_none());
        assert_eq!(script(EXTEND, &["theirs", "60000"]).await, 1);
        assert_eq!(script(UNLOCK, &["theirs"]).await, 1);
    }
    client.close().await.expect("closed");
}
