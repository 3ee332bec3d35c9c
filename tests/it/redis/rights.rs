//! The rights that locking needs.

use distlock::Error;
use redis::cmd;

use super::{others::LAYOUTS, own::Server};
use crate::common::{
    Case, Harness, SOON, Waiter, beside_others, close, connect, locked, own::TTL, queue_of, reason,
    redis::Redis, release_both, within,
};

/// The documented rights suffice, and exclude other commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_suffice() {
    let docs = include_str!("../../../docs/stores/redis.md");
    let from = docs.find("~{distlock}:* ~{distlock:/distlock}:*").expect("the rights");
    let rights = docs[from..].split("```").next().expect("a block").split_whitespace();
    let server = Server::start().await;
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("least").arg("on").arg(">leastpw").arg(rights.collect::<Vec<_>>());
    let _: String = server.ask(&user).await;
    for refused in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["KEYS", "*"], &["GET", "other"]] {
        let mut dry = cmd("ACL");
        dry.arg("DRYRUN").arg("least").arg(refused);
        let reply: String = server.ask(&dry).await;
        assert!(reply.contains("permission"), "{refused:?}: {reply}");
    }
    let url = server.url().replace("app:apppw", "least:leastpw");
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
