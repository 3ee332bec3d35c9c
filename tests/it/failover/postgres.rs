//! PostgreSQL with a standby, asynchronous or synchronous.

use std::time::Duration;

use distlock::FailoverBehavior;
use tokio::time::Instant;

use crate::{
    common::{
        SOON, close, contended, eventually, handover,
        own::{Server, TTL},
        postgres::{IMAGE, Postgres},
        promises, queue_of,
    },
    failover::{
        pair::{Pair, Replication},
        promotion::{LONGEST, check_time, granted, promotion},
    },
};

pub(crate) struct Replicated;

promotion!(Replicated);

/// Returns the first line of the output of an operator's statements.
pub(crate) async fn ask(server: &Server, statements: &[&str]) -> String {
    let mut psql = vec![
        "psql",
        "--no-psqlrc",
        "--quiet",
        "--tuples-only",
        "--no-align",
        "--username=postgres",
    ];
    for statement in statements {
        psql.extend(["--command", statement]);
    }
    server.own.run(&psql).await
}

/// Waits until a query returns `wanted`.
async fn becomes(server: &Server, sql: &str, wanted: &str) {
    eventually(SOON, sql, async || ask(server, &[sql]).await == wanted).await;
}

/// Waits until the standby has all writes of the primary.
async fn caught_up(pair: &Pair) {
    let written = ask(&pair.primary, &["SELECT pg_current_wal_lsn()"]).await;
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    becomes(&pair.standby, &replayed, "t").await;
}

impl Replicated {
    /// Starts a pair whose primary confirms only what is on the standby's disk.
    pub(crate) async fn synchronous() -> Pair {
        let pair = Self::asynchronous().await;
        let set = "ALTER SYSTEM SET synchronous_standby_names = '*'";
        ask(&pair.primary, &[set, "SELECT pg_reload_conf()"]).await;
        becomes(&pair.primary, "SELECT sync_state FROM pg_stat_replication", "sync").await;
        pair
    }
}

impl Replication for Replicated {
    const STANDBY: &str = "is a standby";

    async fn primary_alone() -> Server {
        Server::beside::<Postgres>(IMAGE, &[], &[]).await
    }

    async fn asynchronous() -> Pair {
        let primary = Self::primary_alone().await;
        let connection = format!(
            "host={} user=postgres password=postgres application_name=standby",
            primary.own.ip().await
        );
        let copy = format!(
            "pg_basebackup --pgdata=/data/pg --checkpoint=fast --write-recovery-conf \
             --dbname='{connection}' && exec /entrypoint"
        );
        let standby = Server::start(IMAGE, &["--entrypoint=sh"], &["-c", &copy]).await;
        eventually(SOON * 5, "the standby accepts readers", async || {
            let ready = "pg_isready --quiet --host=127.0.0.1 && echo ready || true";
            standby.own.run(&["sh", "-c", ready]).await == "ready"
        })
        .await;
        let pair = Pair { primary, standby };
        caught_up(&pair).await;
        pair
    }

    async fn part(pair: &Pair) {
        caught_up(pair).await;
        let unset = "ALTER SYSTEM SET primary_conninfo = ''";
        ask(&pair.standby, &[unset, "SELECT pg_reload_conf()"]).await;
        becomes(&pair.primary, "SELECT count(*) FROM pg_stat_replication", "0").await;
    }

    async fn promote(pair: &Pair) {
        assert_eq!(ask(&pair.standby, &["SELECT pg_promote()"]).await, "t");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_synchronous_standby_keeps_its_locks() {
    let pair = Replicated::synchronous().await;
    let (holder, other) = (pair.client(TTL).await, pair.client(LONGEST).await);
    assert_eq!(promises(&holder).await, (true, FailoverBehavior::Continues));
    let (guard, waiter) = contended(&holder, &other, "a").await;
    queue_of(&other, "a", 2).await;
    pair.primary.own.kill().await;
    let begun = Instant::now();
    Replicated::promote(&pair).await;
    let newcomer = pair.client(TTL).await;
    check_time(begun, granted(&newcomer, "b").await);
    // The standby has had the lock's entry all the time.
    assert!(guard.is_valid() && waiter.waits());
    let token = guard.fencing_token();
    let next = handover(guard, waiter).await;
    assert!(next.fencing_token() > token);
    next.unlock().await.expect("released");
    close([holder, other, newcomer]).await;
}

/// Without its standby the primary confirms nothing, so no lock is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_primary_without_its_standby_grants_nothing() {
    let pair = Replicated::synchronous().await;
    let client = pair.client(TTL).await;
    pair.standby.own.kill().await;
    let limit = Duration::from_secs(2);
    let tried = client.mutex("a").lock_timeout(limit).await;
    assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
}

/// Patroni empties `synchronous_standby_names` when the standby is lost, so that the primary
/// confirms again. Here an operator does that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durability_follows_synchronous_standby_names() {
    let pair = Replicated::synchronous().await;
    let client = pair.primary.client().await;
    assert_eq!(promises(&client).await, (true, FailoverBehavior::Continues));
    let unset = "ALTER SYSTEM SET synchronous_standby_names = ''";
    ask(&pair.primary, &[unset, "SELECT pg_reload_conf()"]).await;
    eventually(SOON, "the standby may lack confirmed writes", async || {
        promises(&client).await == (false, FailoverBehavior::MayLoseGrants)
    })
    .await;
    pair.standby.own.kill().await;
    let alone = async || promises(&client).await == (true, FailoverBehavior::Blocks);
    eventually(SOON, "the primary has no standby", alone).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let set = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    ask(&pair.primary, &[set, "SELECT pg_reload_conf()"]).await;
    let limit = Duration::from_secs(2);
    eventually(SOON, "the primary confirms nothing without a standby", async || {
        let tried = client.mutex("b").lock_timeout(limit).await;
        !matches!(tried, Ok(Some(_)))
    })
    .await;
    drop(guard);
}
