//! TLS on a connection to PostgreSQL, by the same crate and rules as for the other stores.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_postgres::tls::{ChannelBinding, TlsConnect};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::backend::{tls::Material, trust};

/// What secures one connection; without a configuration, nothing does, and the client crate does
/// not ask it to.
pub(super) struct Securing {
    config: Option<Arc<ClientConfig>>,
    name: String,
}

impl Securing {
    /// To a server at this `host:port`.
    pub(super) fn new(material: Option<&Material>, endpoint: &str) -> io::Result<Self> {
        let Some(material) = material else {
            return Ok(Self { config: None, name: String::new() });
        };
        let no_ca = || io::Error::other("there is no CA to check it with: see Tls::ca_certificate");
        let config = trust::config(material).ok_or_else(no_ca)?;
        let name = material.server_name.as_deref().unwrap_or_else(|| trust::host(endpoint));
        Ok(Self { config: Some(Arc::new(config)), name: name.to_owned() })
    }

    pub(super) fn is_on(&self) -> bool {
        self.config.is_some()
    }
}

impl TlsConnect<TcpStream> for Securing {
    type Stream = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or(io::ErrorKind::Unsupported)?;
            let name = ServerName::try_from(self.name).map_err(io::Error::other)?;
            TlsConnector::from(config).connect(name, stream).await.map(Secured)
        })
    }
}

/// A connection by TLS.
pub(super) struct Secured(TlsStream<TcpStream>);

impl Secured {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut TlsStream<TcpStream>> {
        Pin::new(&mut self.get_mut().0)
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}

impl tokio_postgres::tls::TlsStream for Secured {
    /// None: the server's certificate is checked, which is what a binding would make up for.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
