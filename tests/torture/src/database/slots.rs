//! A cluster of Redis servers: each has some of the slots, or follows one that has.

use std::time::Duration;

use distlock_testkit::Result;
use redis::{FromRedisValue, from_redis_value};
use tokio::time::{sleep, timeout};

use super::{
    redis::tell,
    server::{Server, done},
};

/// Two pairs, between which the locks' slot moves, and one more that has a vote.
pub(super) const COUNT: usize = 5;

/// Of those that begin as primaries.
const SLOTS: [(usize, [&str; 2]); 3] =
    [(0, ["0", "5460"]), (2, ["5461", "10922"]), (4, ["10923", "16383"])];

const KEY: &str = "{distlock:/torture}:meta";

/// One that takes longer has not got the locks.
const PATIENCE: Duration = Duration::from_millis(200);

/// The other one of its pair.
pub(super) fn partner(server: usize) -> Option<usize> {
    (server < COUNT - 1).then_some(server ^ 1)
}

async fn ask<T: FromRedisValue>(server: &Server, command: &[&str]) -> Result<T> {
    Ok(from_redis_value(tell(server, command).await?)?)
}

async fn does(server: &Server, command: &[&str]) -> Result<()> {
    done(|| ask(server, command)).await
}

async fn id(server: &Server) -> Result<String> {
    done(|| ask(server, &["CLUSTER", "MYID"])).await
}

/// Fails unless it knows all others, and all slots are served.
pub(super) async fn is_whole(server: &Server) -> Result<()> {
    let told: String = ask(server, &["CLUSTER", "INFO"]).await?;
    let known = format!("cluster_known_nodes:{COUNT}");
    match told.contains("cluster_state:ok") && told.contains(&known) {
        true => Ok(()),
        false => Err(format!("its cluster is {told}").into()),
    }
}

/// Makes a cluster of them.
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

/// The one server that says that it has the locks.
pub(super) async fn keeper(servers: &[Server]) -> Result<usize> {
    let mut found = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let asked = timeout(PATIENCE, ask::<u64>(server, &["EXISTS", KEY])).await;
        found.extend(matches!(asked, Ok(Ok(_))).then_some(number));
    }
    match found[..] {
        [one] => Ok(one),
        _ => Err(format!("{found:?} have the locks").into()),
    }
}

/// The slot of the locks goes there, key by key, in about this time.
pub(super) async fn migrate(source: &Server, target: &Server, time: Duration) -> Result<()> {
    let slot: u64 = done(|| ask(source, &["CLUSTER", "KEYSLOT", KEY])).await?;
    let (slot, [old, new]) = (slot.to_string(), [id(source).await?, id(target).await?]);
    let set = async |server, what, whom: &str| {
        does(server, &["CLUSTER", "SETSLOT", &slot, what, whom]).await
    };
    set(target, "IMPORTING", &old).await?;
    set(source, "MIGRATING", &new).await?;
    loop {
        let some = ["CLUSTER", "GETKEYSINSLOT", &slot, "1"];
        let keys: Vec<String> = done(|| ask(source, &some)).await?;
        let [key] = &keys[..] else { break };
        let how = ["6379", key, "0", "1000", "REPLACE", "AUTH2", "default", "root"];
        let command = [&["MIGRATE", target.ip()?], &how[..]].concat();
        let told: String = done(|| ask(source, &command)).await?;
        if told != "OK" && told != "NOKEY" {
            return Err(format!("{key} does not move: {told}").into());
        }
        sleep(time.mul_f64(fastrand::f64() / 5.0)).await;
    }
    set(target, "NODE", &new).await?;
    set(source, "NODE", &new).await
}
