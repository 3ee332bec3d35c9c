//! TLS on a TCP connection.

use std::{io, sync::Arc};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::backend::{
    tls::Material,
    trust::{self, Otherwise},
};

/// A connection, secured or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What secures one connection to a server.
pub(crate) struct Securing {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Securing {
    /// To a server at this `host:port`.
    pub(crate) fn new(
        material: &Material,
        endpoint: &str,
        otherwise: Otherwise,
    ) -> io::Result<Self> {
        let no_ca = || io::Error::other("there is no CA to check it with: see Tls::ca_certificate");
        let config = trust::config(material, otherwise).ok_or_else(no_ca)?;
        let name = material.server_name.as_deref().unwrap_or_else(|| trust::host(endpoint));
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(crate) async fn secure(self, plain: impl Stream + 'static) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.connector.connect(self.name, plain).await?))
    }
}
