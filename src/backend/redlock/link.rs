//! A connection to one node.

use std::time::Duration;

use futures_util::future::{Fuse, FutureExt};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, aio::MultiplexedConnection};

use crate::{
    backend::{
        Result, StoreError,
        remote::Remote,
        resp::{self, Driver, Info, is_denied},
    },
    runtime::clock,
};

pub(super) const CONNECTING: &str = "connecting";

/// A connection that works only while its driver is polled.
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: Fuse<Driver>,
    pub(super) server: Server,
    /// The time when the server sent that report.
    pub(super) answered: Duration,
}

/// A server's report of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// The id of the process.
    pub(super) run: String,
    pub(super) uptime: Duration,
}

/// Connects to a server, and reads what it is.
pub(super) async fn connect(endpoint: &str, remote: &Remote) -> Result<Link> {
    let info = resp::as_ourselves(remote, RedisConnectionInfo::default());
    let config = AsyncConnectionConfig::new();
    let (connection, driver) = resp::begin(remote, endpoint, info, config, refused).await?;
    let mut driver = driver.fuse();
    let mut asking = connection.clone();
    let info = async move { redis::cmd("INFO").query_async::<String>(&mut asking).await };
    let mut info = std::pin::pin!(info);
    let info = loop {
        tokio::select! {
            biased;
            // The request reports the end of the connection as an error, too.
            () = &mut driver => {}
            info = &mut info => break info.map_err(|error| refused(endpoint, &error))?,
        }
    };
    let answered = clock::now();
    let server = Server::read(endpoint, &info)?;
    Ok(Link { connection, driver, server, answered })
}

impl Server {
    /// Reads `INFO`. Fails if the server cannot store locks.
    fn read(endpoint: &str, info: &str) -> Result<Self> {
        let info = Info::read(info);
        let field = |name| info.field(name);
        let fatal = |reason: String| {
            let source = format!("{endpoint} {reason}").into();
            Err(StoreError::Fatal { operation: CONNECTING, source })
        };
        if let Some(reason) = info.unsupported() {
            return fatal(format!(
                "{reason}: Redlock needs Redis 7 or later, or Valkey 7.2 or later"
            ));
        }
        if field("cluster_enabled") == "1" {
            return fatal(
                "is part of a cluster, which spreads keys over its servers: each node must be a \
                 single server"
                    .into(),
            );
        }
        if field("run_id").is_empty() {
            return fatal(
                "does not report its run_id (INFO server), without which a restart cannot be \
                 detected: use Redis or Valkey itself"
                    .into(),
            );
        }
        match field("role") {
            "master" => {}
            "" => {
                return fatal(
                    "does not report its role (INFO), so it may be a replica: use Redis or Valkey \
                     itself"
                        .into(),
                );
            }
            _ => return fatal("is a replica: each node must be an independent primary".into()),
        }
        match field("maxmemory_policy") {
            "noeviction" => {}
            "" => {
                return fatal(
                    "does not report maxmemory_policy (INFO), so it may evict locks when it is \
                     full: use Redis or Valkey itself"
                        .into(),
                );
            }
            policy => {
                return fatal(format!(
                    "may evict locks when it is full (maxmemory-policy = {policy}): set noeviction"
                ));
            }
        }
        let Ok(uptime) = field("uptime_in_seconds").parse::<i64>() else {
            return fatal(
                "does not report its uptime (INFO server), so the time of a restart is unknown: \
                 use Redis or Valkey itself"
                    .into(),
            );
        };
        // The uptime is negative, and so unknown, if the server's clock was set back.
        let uptime = Duration::from_secs(u64::try_from(uptime).unwrap_or(0));
        Ok(Self { run: field("run_id").to_owned(), uptime })
    }
}

/// Returns the error for a node that cannot be used.
fn refused(endpoint: &str, error: &RedisError) -> StoreError {
    let reason = format!("{endpoint}: {error}");
    match is_denied(error) {
        true => StoreError::Denied(reason.into()),
        false => StoreError::Unavailable(reason.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(changed: &str) -> Result<Server> {
        let mut lines = vec![
            "redis_version:8.0.2",
            "run_id:ab",
            "uptime_in_seconds:17",
            "role:master",
            "maxmemory_policy:noeviction",
        ];
        let (name, _) = changed.split_once(':').unwrap();
        lines.retain(|line| !line.starts_with(&format!("{name}:")));
        lines.push(changed);
        Server::read("h:1", &lines.join("\r\n"))
    }

    #[test]
    fn unsuitable_servers_are_refused_by_name() {
        read("valkey_version:7.2.5").unwrap();
        let server = read("os:Linux").unwrap();
        assert_eq!(server, Server { run: "ab".into(), uptime: Duration::from_secs(17) });
        assert_eq!(read("uptime_in_seconds:-3600").unwrap().uptime, Duration::ZERO);
        for (changed, words) in [
            ("redis_version:6.2.1", "h:1 is Redis 6.2.1"),
            ("valkey_version:6.9.9", "h:1 is Valkey 6.9.9"),
            ("dragonfly_version:df-v1.27.1", "h:1 is Dragonfly df-v1.27.1"),
            ("cluster_enabled:1", "h:1 is part of a cluster"),
            ("run_id:", "does not report its run_id"),
            ("redis_version:", "h:1 does not report redis_version (INFO)"),
            ("role:slave", "h:1 is a replica"),
            ("role:", "h:1 does not report its role (INFO)"),
            ("maxmemory_policy:volatile-ttl", "maxmemory-policy = volatile-ttl"),
            ("maxmemory_policy:", "h:1 does not report maxmemory_policy (INFO)"),
            ("uptime_in_seconds:", "does not report its uptime"),
        ] {
            let reason = read(changed).unwrap_err().reason();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
