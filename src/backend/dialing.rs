//! A way to a server, by TLS if that is wanted: for stores that say nothing before it is there.

use std::{io, sync::Arc};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::{
    certificates,
    error::{Result, StoreError},
    tcp::tcp,
    tls::Material,
    trust,
};

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// By TLS, if there is any.
pub(crate) async fn dial(endpoint: &str, material: Option<&Material>) -> Result<Box<dyn Stream>> {
    connect(endpoint, material).await.map_err(|error| match certificates::explain(&error) {
        Some(fault) => StoreError::Denied(format!("{endpoint}: {fault}").into()),
        None => StoreError::Unavailable(format!("{endpoint}: {error}").into()),
    })
}

async fn connect(endpoint: &str, material: Option<&Material>) -> io::Result<Box<dyn Stream>> {
    let securing = match material {
        None => None,
        Some(material) => {
            let no_ca =
                || io::Error::other("there is no CA to check it with: see Tls::ca_certificate");
            let config = trust::config(material).ok_or_else(no_ca)?;
            let name = material.server_name.as_deref().unwrap_or_else(|| trust::host(endpoint));
            let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
            Some((TlsConnector::from(Arc::new(config)), name))
        }
    };
    let tcp = tcp(endpoint).await?;
    Ok(match securing {
        None => Box::new(tcp),
        Some((connector, name)) => Box::new(connector.connect(name, tcp).await?),
    })
}
