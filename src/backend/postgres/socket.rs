//! Connects to a server by TCP or by a Unix socket.

use std::io;

use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_util::either::Either;

use crate::runtime::tcp::tcp;

#[cfg(unix)]
pub(super) type Socket = Either<TcpStream, UnixStream>;
#[cfg(not(unix))]
pub(super) type Socket = Either<TcpStream, TcpStream>;

/// Connects by the socket in a directory if the endpoint names one
/// (<https://www.postgresql.org/docs/17/runtime-config-connection.html>,
/// "unix_socket_directories").
pub(super) async fn dial(endpoint: &str) -> io::Result<Socket> {
    match endpoint.rsplit_once(':') {
        #[cfg(unix)]
        Some((directory, port)) if directory.starts_with('/') => {
            let path = format!("{directory}/.s.PGSQL.{port}");
            Ok(Either::Right(UnixStream::connect(path).await?))
        }
        _ => Ok(Either::Left(tcp(endpoint).await?)),
    }
}
