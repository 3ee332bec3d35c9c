//! Long queues and many held locks, seen from outside.

use std::time::Duration;

use etcd_client::{GetOptions, KvClient};
use tokio::time::{Instant, sleep};

use crate::{
    Result,
    backend::Backend,
    counters::{Counters, mntr, numbered},
    link::Process,
    measures::{
        BYTES_DRAINED, ENQUEUE, HOLDING, KEEPALIVES, RELEASE, RSS_LOCK, SESSIONS, Seen, TAKE,
    },
    slice::Slice,
    sql::Connection,
    subject::TTL,
    task::{NAME, Role, Task},
};

/// For all to queue, and for all to be served.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);
/// After this time without new keys, no more are expected.
const STAGNATION: Duration = Duration::from_secs(12);
/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(25);

/// A number of waiters queue behind a holder; then the lock passes through all of them.
pub(crate) async fn queue(
    task: Task,
    servers: &[String],
    waiters: usize,
    seen: &mut Seen,
) -> Result<(Slice, Counters)> {
    let (backend, directory) = (task.backend, format!("{}/{NAME}", task.namespace));
    let store = Operator::connect(backend, servers).await?;
    let mut process = Process::start(&Role::Subject(task))?;
    process.mark().await?;
    let before = Counters::read(backend, servers).await?;
    let start = Instant::now();
    process.answer("queue").await?;
    process.mark().await?;

    let (mut most, mut grew, mut looks) = (0, start, 0.0);
    while most <= waiters && start.elapsed() < TIME_LIMIT && grew.elapsed() < STAGNATION {
        sleep(PAUSE).await;
        let keys = store.keys(&directory).await?;
        looks += 1.0;
        if keys > most {
            (most, grew) = (keys, Instant::now());
        }
    }
    if most > waiters {
        seen.other(ENQUEUE, start.elapsed().as_secs_f64());
    }
    let queued = settle(backend, servers, waiters).await?;
    process.answer("drain").await?;
    let slice = process.done().await?;
    let after = Counters::read(backend, servers).await?;
    process.finish().await?;
    seen.other(BYTES_DRAINED, (after - queued).bytes / slice.pairs as f64);
    let mut counted = after - before;
    counted.requests -= looks;
    Ok((slice, counted))
}

/// Waits until the waiters have almost stopped sending requests.
pub(crate) async fn settle(
    backend: Backend,
    servers: &[String],
    waiters: usize,
) -> Result<Counters> {
    let start = Instant::now();
    let mut last = Counters::read(backend, servers).await?;
    loop {
        sleep(Duration::from_millis(300)).await;
        let now = Counters::read(backend, servers).await?;
        let more = now - last;
        let asked = [more.requests, more.watch_messages].into_iter().filter(|n| n.is_finite());
        if asked.sum::<f64>() <= (waiters as f64 / 100.0).max(1.0) || start.elapsed() > STAGNATION {
            return Ok(now);
        }
        last = now;
    }
}

/// Locks are held for a while.
pub(crate) async fn held(
    task: Task,
    servers: &[String],
    hold: Duration,
    seen: &mut Seen,
) -> Result<(Slice, Counters)> {
    let backend = task.backend;
    let others = sessions(backend, servers).await?;
    let mut process = Process::start(&Role::Subject(task))?;
    process.mark().await?;
    let before = Counters::read(backend, servers).await?;
    process.answer("take").await?;
    process.mark().await?;
    // Background work of the last grants ends meanwhile.
    sleep(Duration::from_secs(1)).await;
    let renewed = renewals(backend, servers).await?;
    let taken = Counters::read(backend, servers).await?;
    sleep(hold).await;
    let kept = Counters::read(backend, servers).await? - taken;
    let renewed = renewals(backend, servers).await? - renewed;
    let sessions = sessions(backend, servers).await? - others;
    process.answer("release").await?;
    let slice = process.done().await?;
    let counted = Counters::read(backend, servers).await? - before;
    process.finish().await?;
    let thirds = hold.as_secs_f64() / (TTL.as_secs_f64() / 3.0);
    seen.other(KEEPALIVES, renewed / thirds / sessions);
    seen.other(HOLDING, kept.requests / thirds / sessions);
    seen.other(SESSIONS, sessions);
    seen.other(TAKE, slice.take as f64 / 1e9);
    seen.other(RELEASE, slice.release as f64 / 1e9);
    let grown = slice.rss as f64 - slice.rss_before as f64;
    seen.other(RSS_LOCK, grown * 1024.0 / slice.pairs as f64);
    Ok((slice, counted))
}

/// The operator's view of the store.
pub(crate) enum Operator {
    Etcd(Box<KvClient>),
    ZooKeeper(zookeeper_client::Client),
    Sql(Backend, Connection),
}

impl Operator {
    pub(crate) async fn connect(backend: Backend, servers: &[String]) -> Result<Self> {
        Ok(match backend {
            Backend::Etcd => {
                Self::Etcd(Box::new(etcd_client::Client::connect(servers, None).await?.kv_client()))
            }
            Backend::ZooKeeper => {
                let connector = zookeeper_client::Client::connector().with_session_timeout(TTL * 2);
                Self::ZooKeeper(connector.connect(&servers.join(",")).await?)
            }
            sql => Self::Sql(sql, Connection::open(sql, servers).await?),
        })
    }

    /// The number of keys in a directory. This counts as a request.
    pub(crate) async fn keys(&self, directory: &str) -> Result<usize> {
        Ok(match self {
            Self::Etcd(client) => {
                let options = GetOptions::new().with_prefix().with_count_only();
                client.clone().get(format!("{directory}/"), Some(options)).await?.count() as usize
            }
            Self::ZooKeeper(client) => {
                client.check_stat(directory).await?.map_or(0, |stat| stat.num_children as usize)
            }
            Self::Sql(backend, connection) => {
                let sql = format!(
                    "SELECT (SELECT COUNT(*) FROM {} WHERE queue = '{directory}') \
                     + (SELECT COUNT(*) FROM bench_floor WHERE id LIKE '{directory}/%')",
                    entries(*backend)
                );
                connection.number(&sql).await? as usize
            }
        })
    }
}

/// The library's table of entries.
pub(crate) fn entries(backend: Backend) -> &'static str {
    if backend == Backend::Postgres { "distlock.entries" } else { "distlock_entries" }
}

/// The number of leases or sessions.
async fn sessions(backend: Backend, servers: &[String]) -> Result<f64> {
    match backend {
        Backend::Etcd => {
            let mut client = etcd_client::Client::connect(servers, None).await?;
            Ok(client.leases().await?.leases().len() as f64)
        }
        // Without an additional session, which would be counted.
        _ => {
            let server = servers.first().ok_or("no server")?;
            mntr(server)
                .await?
                .get("zk_global_sessions")
                .copied()
                .ok_or_else(|| "no count of sessions".into())
        }
    }
}

/// How often leases or sessions have been renewed by requests.
async fn renewals(backend: Backend, servers: &[String]) -> Result<f64> {
    match backend {
        Backend::Etcd => Ok(Counters::read(backend, servers).await?.keepalives),
        _ => numbered(servers.first().ok_or("no server")?).await,
    }
}
