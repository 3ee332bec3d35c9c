//! Finds certificate errors by a handshake of our own. The client crates do not report the result
//! of theirs, or lose it with the connection.

use std::{
    io::{self, Read},
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, Stream, pki_types::ServerName};

use crate::backend::{
    StoreError, certificates,
    remote::Remote,
    trust::{config, host},
};

/// How long a server may take for one step.
const STEP: Duration = Duration::from_millis(500);

/// Returns why no server can be reached, if the certificates are the reason.
pub(crate) async fn fault(remote: &Remote) -> Option<StoreError> {
    let (material, servers) = (remote.material()?, remote.endpoints.clone());
    // The program's runtime may have no I/O.
    let faults = tokio::task::spawn_blocking(move || {
        let config = Arc::new(config(&material)?);
        let faults = servers.iter().map(|server| {
            let name = material.server_name.as_deref().unwrap_or_else(|| host(server));
            let fault = shake_hands(server, name, Arc::clone(&config)).err()?;
            Some(format!("{server}: {}", certificates::explain(&fault)?))
        });
        Some(faults.collect::<Vec<_>>())
    });
    let faults = faults.await.ok().flatten()?;
    let everywhere = faults.iter().all(Option::is_some);
    let fault = faults.into_iter().flatten().next()?;
    // Unless all servers fail in this way, another server may work, or this one later.
    Some(match everywhere {
        true => StoreError::Denied(fault.into()),
        false => StoreError::Unavailable(fault.into()),
    })
}

/// Does a handshake, and reads once. In TLS 1.3 a server may reject the client's certificate only
/// after the handshake.
fn shake_hands(endpoint: &str, name: &str, config: Arc<ClientConfig>) -> io::Result<()> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let address = endpoint.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut tcp = TcpStream::connect_timeout(&address, STEP)?;
    tcp.set_read_timeout(Some(STEP))?;
    tcp.set_write_timeout(Some(STEP))?;
    let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Stream::new(&mut tls, &mut tcp).read(&mut [0]).map(drop)
}
