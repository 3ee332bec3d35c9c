//! Finds the server of a cluster that stores the namespace's keys.

use redis::{RedisError, RedisResult, aio::MultiplexedConnection, cmd};

use super::script::Keys;
use crate::backend::{Result, StoreError};

/// Returns the redirection to the server that stores the keys. Returns `None` if this server stores
/// them. The query needs no right except to read.
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

/// Returns the address in a redirection, `slot host:port`, from this endpoint.
pub(super) fn address(from: &str, moved: &RedisError) -> Result<String> {
    let detail = moved.detail().unwrap_or_default();
    read(from, detail).ok_or_else(|| {
        let reason = format!("{from} does not report which server has the slot (MOVED): {detail}");
        StoreError::Unavailable(reason.into())
    })
}

fn read(from: &str, detail: &str) -> Option<String> {
    let (host, port) = detail.split_whitespace().last()?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    match host {
        // A server that does not know its own host leaves it empty, and means the host of this
        // endpoint.
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
    fn cluster_redirections_are_parsed() {
        for (detail, there) in [
            ("3443 10.0.0.1:6379", Some("10.0.0.1:6379")),
            ("3443 db.example.org:7000", Some("db.example.org:7000")),
            ("3443 ::1:7000", Some("[::1]:7000")),
            ("3443 :7001", Some("h:7001")),
            ("3443 ?:7001", None),
            ("3443 h:0", None),
            ("", None),
        ] {
            assert_eq!(read("h:6379", detail).as_deref(), there, "{detail}");
        }
    }
}
