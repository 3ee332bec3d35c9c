//! What is wrong with the certificates, found out by a handshake of our own: the client crates keep
//! to themselves what theirs came to, or lose it with the connection.

use std::{
    io::{self, Read},
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, Stream, pki_types::ServerName};

use crate::backend::{
    certificates,
    error::StoreError,
    tls::Material,
    trust::{config, host},
};

/// How long a server may take for one step.
const STEP: Duration = Duration::from_millis(500);

/// A server, and what is wrong between it and us.
pub(crate) struct Fault {
    text: String,
    /// All servers say such a thing.
    everywhere: bool,
}

impl Fault {
    /// Another server may do, or this one later, unless all say so.
    pub(crate) fn into_error(self) -> StoreError {
        match self.everywhere {
            true => StoreError::Denied(self.text.into()),
            false => StoreError::Unavailable(self.text.into()),
        }
    }
}

/// Why these servers cannot be talked to, as far as certificates are the reason.
pub(crate) async fn fault(material: Arc<Material>, endpoints: &[String]) -> Option<Fault> {
    let servers = endpoints.to_vec();
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
    faults.into_iter().flatten().next().map(|text| Fault { text, everywhere })
}

/// A server may refuse the client's certificate after the handshake, as TLS 1.3 has it.
fn shake_hands(endpoint: &str, name: &str, config: Arc<ClientConfig>) -> io::Result<()> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let address = endpoint.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut tcp = TcpStream::connect_timeout(&address, STEP)?;
    tcp.set_read_timeout(Some(STEP))?;
    tcp.set_write_timeout(Some(STEP))?;
    let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Stream::new(&mut tls, &mut tcp).read(&mut [0]).map(drop)
}
