//! TLS on a TCP connection.

use std::{io, sync::Arc};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::backend::{tls::Material, trust};

/// A connection, with or without TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The TLS settings of one connection to a server.
pub(crate) struct Securing {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Securing {
    /// Creates the settings for a server at this `host:port`.
    pub(crate) fn new(material: &Material, endpoint: &str) -> io::Result<Self> {
        let unusable =
            || io::Error::other("the certificates or the key passed for TLS cannot be used");
        let config = trust::config(material).ok_or_else(unusable)?;
        let name = material.server_name.as_deref().unwrap_or_else(|| trust::host(endpoint));
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(crate) async fn secure(self, plain: impl Stream + 'static) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.connector.connect(self.name, plain).await?))
    }
}
