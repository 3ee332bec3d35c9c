//! The interface to the driver crate, `mysql_async`: one connection, which runs one request of
//! several statements at a time and returns text.

use std::{io, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use mysql_async::{
    Column, Conn, DriverError, IoError, OptsBuilder, QueryResult, Row as Cells, TextProtocol,
    Value, prelude::Queryable,
};

use super::sent::ServerError;
use crate::backend::{
    credentials::Credentials,
    sql::outcome::{Outcome, Row},
    tls::Material,
    trust,
};

/// The largest packet that is accepted.
const LARGEST: usize = 1 << 30;

/// The server's idle timeout in seconds, which the crate needs only for its pools. If it is not
/// set, the crate queries the server for it.
const IDLE: usize = 28_800;

/// How long the connection is silent before the kernel probes the peer.
const SILENT: Duration = Duration::from_secs(15);

/// The user and the database of a connection.
pub(super) struct Login<'a> {
    pub(super) credentials: Option<&'a Credentials>,
    pub(super) database: Option<&'a str>,
    pub(super) tls: Option<&'a Material>,
}

/// Why there is no connection.
pub(super) enum Refusal {
    /// The server has refused.
    Server(ServerError),
    /// The server cannot do what is needed.
    Unable(&'static str),
    Broken(io::Error),
}

/// The reply to one request.
#[derive(Debug)]
pub(super) struct Answer {
    /// The outcomes of its statements, in order.
    pub(super) outcomes: Vec<Outcome>,
    /// The error of the next statement, after which none was run.
    pub(super) refused: Option<ServerError>,
}

/// An authenticated connection. It is unusable after one of its futures was dropped or has failed.
pub(super) struct Driver(Option<Conn>);

impl Driver {
    /// Connects to a server at this `host:port`.
    pub(super) async fn open(endpoint: &str, login: Login<'_>) -> Result<Self, Refusal> {
        let connecting = Conn::new(options(endpoint, &login).map_err(Refusal::Broken)?);
        match AssertUnwindSafe(connecting).catch_unwind().await {
            Ok(Ok(connection)) => Ok(Self(Some(connection))),
            Ok(Err(error)) => Err(refusal(error)),
            // The crate reports a malformed key, or a user without a password, as this error.
            Err(_) => Err(Refusal::Unable(UNKNOWN_WAY)),
        }
    }

    /// Runs all of these statements in one request.
    pub(super) async fn ask(&mut self, text: &str) -> io::Result<Answer> {
        ask(self.0.as_mut().ok_or(io::ErrorKind::NotConnected)?, text).await
    }

    /// Closes the connection with a protocol message.
    pub(super) async fn close(mut self) {
        if let Some(connection) = self.0.take() {
            // The server ends it in any case.
            let _ = connection.disconnect().await;
        }
    }
}

/// Closes the connection at once. The crate's own `Drop` would first read the rest of a reply,
/// however long that takes.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            let _ = connection.disconnect().now_or_never();
        }
    }
}

/// Runs all of these statements on this connection in one request.
pub(super) async fn ask(connection: &mut Conn, text: &str) -> io::Result<Answer> {
    let mut outcomes = Vec::new();
    let refused = match read(connection, text, &mut outcomes).await {
        Ok(()) => None,
        Err(error) => Some(server_error(error)?),
    };
    Ok(Answer { outcomes, refused })
}

/// The caller checks the TLS settings before: see `Tls::read`.
fn options(endpoint: &str, login: &Login<'_>) -> io::Result<OptsBuilder> {
    let port = endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let credentials = login.credentials;
    let no_port = || io::Error::new(io::ErrorKind::InvalidInput, "the address has no port");
    Ok(OptsBuilder::default()
        .ip_or_hostname(trust::host(endpoint))
        .tcp_port(port.ok_or_else(no_port)?)
        .user(Some(credentials.map_or("", |credentials| &credentials.user)))
        .pass(Some(credentials.map_or("", |credentials| credentials.password.expose())))
        .db_name(login.database)
        .ssl_opts(login.tls.map(super::tls::options).transpose()?)
        // The count of an UPDATE includes rows that already have the new values.
        .client_found_rows(true)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(SILENT))
        .prefer_socket(false)
        .stmt_cache_size(0)
        // The crate queries the server for each of these that is not set.
        .max_allowed_packet(Some(LARGEST))
        .wait_timeout(Some(IDLE)))
}

/// Reads the whole reply. An error belongs to the statement after those with outcomes, or to the
/// connection.
async fn read(
    connection: &mut Conn,
    text: &str,
    outcomes: &mut Vec<Outcome>,
) -> mysql_async::Result<()> {
    let mut answer = connection.query_iter(text).await?;
    while let Some(columns) = answer.columns() {
        outcomes.push(outcome(&mut answer, &columns).await?);
    }
    // The error that ended the reply is reported by the next read.
    answer.drop_result().await
}

/// Reads the outcome of a statement. Without columns, its only row is the number that it has drawn
/// by `LAST_INSERT_ID`.
async fn outcome(
    answer: &mut QueryResult<'_, '_, TextProtocol>,
    columns: &[Column],
) -> mysql_async::Result<Outcome> {
    // Once this one is read, the next statement replaces it.
    let count = answer.affected_rows();
    let drawn = answer.last_insert_id().filter(|_| columns.is_empty());
    let rows: Vec<Cells> = answer.collect().await?;
    if columns.is_empty() {
        let drawn = drawn.map(|number| Row::new(vec![Some(number.to_string())]));
        return Ok(Outcome::new(drawn.into_iter().collect(), count));
    }
    let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    Ok(Outcome::new(rows.into_iter().map(row).collect(), count))
}

fn row(cells: Cells) -> Row {
    let cell = |value| match value {
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        // The text protocol has no other values.
        _ => None,
    };
    // `mysql_common::Row::unwrap` returns all cells. It panics only after `take`, which this crate
    // does not call.
    Row::new(cells.unwrap().into_iter().map(cell).collect())
}

/// Returns the server's error. Any other error ends the connection.
pub(super) fn server_error(error: mysql_async::Error) -> io::Result<ServerError> {
    match error {
        mysql_async::Error::Server(error) => {
            Ok(ServerError { code: error.code, state: error.state, message: error.message })
        }
        mysql_async::Error::Io(IoError::Io(error)) => Err(error),
        mysql_async::Error::Io(IoError::Tls(error)) => Err(io::Error::other(error)),
        // Omit its data, which may be a row or a packet.
        other => Err(io::Error::other(other.to_string())),
    }
}

fn refusal(error: mysql_async::Error) -> Refusal {
    match error {
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            Refusal::Unable("the server does not offer TLS")
        }
        mysql_async::Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled,
        ) => Refusal::Unable(UNKNOWN_WAY),
        other => server_error(other).map_or_else(Refusal::Broken, Refusal::Server),
    }
}

const UNKNOWN_WAY: &str = "the server requires a password for this user, or an unsupported \
                           authentication method: use mysql_native_password, \
                           caching_sha2_password, ed25519 or parsec";

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN: Login<'_> = Login { credentials: None, database: None, tls: None };

    #[test]
    fn endpoints_are_split_into_host_and_port() {
        for (endpoint, host) in [("h:3307", "h"), ("[::1]:3307", "::1")] {
            let options = mysql_async::Opts::from(options(endpoint, &LOGIN).unwrap());
            assert_eq!((options.ip_or_hostname(), options.tcp_port()), (host, 3307));
        }
        assert!(options("h", &LOGIN).is_err());
    }

    #[test]
    fn packet_errors_hide_contents() {
        let error = DriverError::UnexpectedPacket { payload: b"s3cret".to_vec() };
        let error = server_error(error.into()).unwrap_err();
        let bytes = format!("{:?}", b"s3cret");
        for shown in [format!("{error}"), format!("{error:?}")] {
            assert!(!shown.contains(&bytes) && !shown.contains("s3cret"), "{shown}");
        }
    }
}
