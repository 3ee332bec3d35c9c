//! A cluster of Redis servers: primaries with some of the slots, and replicas.

use std::time::Duration;

use distlock_testkit::Result;
use redis::{FromRedisValue, from_redis_value};
use tokio::time::{sleep, timeout};

use super::{
    redis::run,
    server::{Server, done},
};

/// Two pairs, between which the locks' slot moves, and a fifth server with a vote.
pub(super) const COUNT: usize = 5;

/// The slots of the initial primaries.
const SLOTS: [(usize, [&str; 2]); 3] =
    [(0, ["0", "5460"]), (2, ["5461", "10922"]), (4, ["10923", "16383"])];

const KEY: &str = "{distlock:/torture}:meta";

/// The time limit of a query for the locks.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// Returns the other server of its pair.
pub(super) fn partner(server: usize) -> Option<usize> {
    (server < COUNT - 1).then_some(server ^ 1)
}

async fn ask<T: FromRedisValue>(server: &Server, command: &[&str]) -> Result<T> {
    Ok(from_redis_value(run(server, command).await?)?)
}

async fn does(server: &Server, command: &[&str]) -> Result<()> {
    done(|| ask(server, command)).await
}

async fn id(server: &Server) -> Result<String> {
    done(|| ask(server, &["CLUSTER", "MYID"])).await
}

/// Fails unless the server knows all others and all slots are served.
pub(super) async fn is_whole(server: &Server) -> Result<()> {
    let reply: String = ask(server, &["CLUSTER", "INFO"]).await?;
    let known = format!("cluster_known_nodes:{COUNT}");
    match reply.contains("cluster_state:ok") && reply.contains(&known) {
        true => Ok(()),
        false => Err(format!("the cluster is {reply}").into()),
    }
}

/// Forms a cluster of the servers.
pub(super) async fn join(servers: &[Server]) -> Result<()> {
    for (server, [first, last]) in SLOTS {
        does(&servers[server], &["CLUSTER", "ADDSLOTSRANGE", first, last]).await?;
    }
    for server in &servers[1..] {
        does(&servers[0], &["CLUSTER", "MEET", server.ip()?, "6379"]).await?;
    }
    for server in servers {
        done(|| is_whole(server)).await?;
    }
    for follower in [1, 3] {
        let primary = id(&servers[follower - 1]).await?;
        does(&servers[follower], &["CLUSTER", "REPLICATE", &primary]).await?;
    }
    Ok(())
}

/// Returns the only server that claims the locks.
pub(super) async fn keeper(servers: &[Server]) -> Result<usize> {
    let mut found = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let reply = timeout(TIME_LIMIT, ask::<u64>(server, &["EXISTS", KEY])).await;
        found.extend(matches!(reply, Ok(Ok(_))).then_some(number));
    }
    match found[..] {
        [one] => Ok(one),
        _ => Err(format!("the servers {found:?} claim the locks").into()),
    }
}

/// Moves the slot of the locks to `target`, key by key, within about `time`.
pub(super) async fn migrate(source: &Server, target: &Server, time: Duration) -> Result<()> {
    let slot: u64 = done(|| ask(source, &["CLUSTER", "KEYSLOT", KEY])).await?;
    let (slot, [old, new]) = (slot.to_string(), [id(source).await?, id(target).await?]);
    let set =
        async |server, what, id: &str| does(server, &["CLUSTER", "SETSLOT", &slot, what, id]).await;
    set(target, "IMPORTING", &old).await?;
    set(source, "MIGRATING", &new).await?;
    loop {
        let some = ["CLUSTER", "GETKEYSINSLOT", &slot, "1"];
        let keys: Vec<String> = done(|| ask(source, &some)).await?;
        let [key] = &keys[..] else { break };
        let how = ["6379", key, "0", "1000", "REPLACE", "AUTH2", "default", "root"];
        let command = [&["MIGRATE", target.ip()?], &how[..]].concat();
        let reply: String = done(|| ask(source, &command)).await?;
        if reply != "OK" && reply != "NOKEY" {
            return Err(format!("{key} does not move: {reply}").into());
        }
        sleep(time.mul_f64(fastrand::f64() / 5.0)).await;
    }
    set(target, "NODE", &new).await?;
    set(source, "NODE", &new).await
}
