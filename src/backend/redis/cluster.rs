//! Where in a cluster our keys are.

use redis::{RedisError, RedisResult, aio::MultiplexedConnection, cmd};

use super::script::Keys;
use crate::backend::{Result, StoreError};

/// Asks a server of a cluster for our keys; `None`: it is the one that has them. Otherwise it tells
/// where they are with the same word as to anybody, for which no right is needed but to read.
pub(super) async fn keeper(
    mut connection: MultiplexedConnection,
    keys: &Keys,
) -> RedisResult<Option<RedisError>> {
    let asked: RedisResult<u64> = cmd("EXISTS").arg(keys.meta()).query_async(&mut connection).await;
    match asked {
        Ok(_) => Ok(None),
        Err(error) if error.code() == Some("MOVED") => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// Where to go to, from this endpoint, by such a word: `slot host:port`.
pub(super) fn address(from: &str, moved: &RedisError) -> Result<String> {
    let told = moved.detail().unwrap_or_default();
    read(from, told).ok_or_else(|| {
        let told = format!("{from} does not tell who has our slot: {told}");
        StoreError::Unavailable(told.into())
    })
}

fn read(from: &str, told: &str) -> Option<String> {
    let (host, port) = told.split_whitespace().last()?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    match host {
        // One that does not know its own address means the one that we have come by.
        "" => Some(format!("{}:{port}", from.rsplit_once(':')?.0)),
        "?" => None,
        host => Some(endpoint(host, port)),
    }
}

pub(super) fn endpoint(host: &str, port: u16) -> String {
    let bare = host.contains(':') && !host.starts_with('[');
    if bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_tells_where_to_go() {
        for (told, there) in [
            ("3443 10.0.0.1:6379", Some("10.0.0.1:6379")),
            ("3443 db.example.org:7000", Some("db.example.org:7000")),
            ("3443 ::1:7000", Some("[::1]:7000")),
            ("3443 :7001", Some("h:7001")),
            ("3443 ?:7001", None),
            ("3443 h:0", None),
            ("", None),
        ] {
            assert_eq!(read("h:6379", told).as_deref(), there, "{told}");
        }
    }
}
