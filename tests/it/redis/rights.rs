//! The rights that locking needs.

use std::time::Duration;

use distlock::{Client, Error};
use redis::cmd;

use super::{others::LAYOUTS, own::Server};
use crate::common::{
    Case, Harness, SOON, Waiter, beside_others, close, connect, locked, own::TTL, queue_of, reason,
    redis::Redis, refused, release_both, within,
};

/// Creates a user with the documented rights except those to these commands. Returns its URL.
async fn user(server: &Server, without: &[&str]) -> String {
    let docs = include_str!("../../../docs/stores/redis.md");
    let from = docs.find("~{distlock}:* ~{distlock:/distlock}:*").expect("the rights");
    let rights = docs[from..].split("```").next().expect("a block").split_whitespace();
    let is_granted = |right: &&str| !without.iter().any(|command| *right == format!("+{command}"));
    let rights: Vec<_> = rights.filter(is_granted).collect();
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("least").arg("reset").arg("on").arg(">leastpw").arg(rights);
    let _: String = server.ask(&user).await;
    server.url().replace("app:apppw", "least:leastpw")
}

/// The documented rights suffice, and exclude other commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_suffice() {
    let server = Server::start().await;
    let url = user(&server, &[]).await;
    for refused in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["KEYS", "*"], &["GET", "other"]] {
        let mut dry = cmd("ACL");
        dry.arg("DRYRUN").arg("least").arg(refused);
        let reply: String = server.ask(&dry).await;
        assert!(reply.contains("permission"), "{refused:?}: {reply}");
    }
    let [one, other] = [connect(&url, TTL).await, connect(&url, TTL).await];
    let guard = locked(&one, "a").await;
    guard.put("/data/a", "b").await.expect("written");
    assert_eq!(one.mutex("a").queue().await.expect("a reply").len(), 1);
    assert_eq!(one.locks().await.expect("a reply").len(), 1);
    assert!(one.durability().await.expect("a reply").exclusive);
    let waiter = Waiter::of(&other, "a");
    queue_of(&one, "a", 2).await;
    release_both(guard, waiter).await;
    let read = within(SOON, "granted", one.rw_lock("r").read()).await.expect("granted");
    read.unlock().await.expect("released");
    close([one, other]).await;
    let refusals: Vec<redis::Value> = server.ask(cmd("ACL").arg("LOG")).await;
    assert!(refusals.is_empty(), "{refusals:?}");
}

/// Most of these commands are called within scripts, where servers report a missing right with
/// another code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_a_session_needs_is_named_if_it_is_missing() {
    let server = Server::start().await;
    for right in ["info", "evalsha", "time", "hmget", "persist", "hget", "hincrby", "zadd"] {
        let url = user(&server, &[right]).await;
        is_denied_by_name(Client::builder(&url).session_ttl(TTL), right).await;
    }
    // A session begins once a replica, or the disk, has it.
    let by_replicas = format!("{}?replicas=1", user(&server, &["wait"]).await);
    is_denied_by_name(Client::builder(&by_replicas).session_ttl(TTL), "wait").await;
    let server = Server::with(&["--appendfsync", "everysec"]).await;
    let by_disk = user(&server, &["waitaof"]).await;
    // This TTL is longer than any TTL on record.
    let long = Duration::from_secs(3600);
    is_denied_by_name(Client::builder(&by_disk).session_ttl(long), "waitaof").await;
}

async fn is_denied_by_name(builder: distlock::Builder, right: &str) {
    let error = refused(builder).await;
    assert!(matches!(error, Error::Denied { .. }) && !error.is_retryable(), "{right}: {error:?}");
    assert!(reason(&error).contains(&format!("'{right}'")), "{right}: {error:?}");
}

/// The script that joins the queue writes the waiter's entry before it calls this command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_denied_after_it_has_joined_leaves_the_queue() {
    let server = Server::start().await;
    let holder = server.client().await;
    let guard = locked(&holder, "a").await;
    let client = connect(&user(&server, &["zlexcount"]).await, TTL).await;
    let error = within(SOON, "the call fails", client.mutex("a").lock()).await.expect_err("denied");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(reason(&error).contains("'zlexcount'"), "{error:?}");
    queue_of(&holder, "a", 1).await;
    guard.unlock().await.expect("released");
    close([holder, client]).await;
}

/// A user without rights to the keys of other libraries is denied, and leaves nothing behind. The
/// model of a server has no rights, so this is not part of `bridge.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_rights_is_denied() {
    beside_others::<Redis>(async |t: &Case<Redis>| {
        for layout in LAYOUTS {
            let url = format!("{}?bridge={layout}&bridge_prefix=elsewhere:", t.store.url());
            let client = t.connect(t.builder_for(&url)).await;
            for refused in [
                client.mutex("a").lock().await.map(drop),
                client.mutex("a").try_lock().await.map(drop),
                client.lock_all(["a", "b"]).await.map(drop),
            ] {
                let error = refused.expect_err("refused");
                assert!(matches!(error, Error::Denied { .. }), "{error:?}");
                assert!(reason(&error).contains("elsewhere:"));
            }
            assert_eq!(t.keys().await, [""; 0]);
        }
    })
    .await;
}
