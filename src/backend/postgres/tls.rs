//! TLS on a connection to PostgreSQL, by the same crate and rules as for the other stores.

use std::{io, pin::Pin};

use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::socket::Socket;
use crate::backend::securing::{Securing, Stream};

/// The TLS settings of one connection. `None`: it is not encrypted, and the client crate does not
/// request TLS.
pub(super) struct Secured(pub(super) Option<Securing>);

impl TlsConnect<Socket> for Secured {
    type Stream = Box<dyn Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

    fn connect(self, plain: Socket) -> Self::Future {
        Box::pin(async { self.0.ok_or(io::ErrorKind::Unsupported)?.secure(plain).await })
    }
}

impl TlsStream for Box<dyn Stream> {
    /// None: the server's certificate is checked, so channel binding adds nothing.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
