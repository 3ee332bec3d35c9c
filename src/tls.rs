//! TLS material, the same for every backend.

use std::fmt;

/// How to secure the connection to the servers: PEM texts, not file names.
///
/// Without a CA the servers' certificates are checked against the roots that the backend's TLS library brings.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = distlock::Tls::new()
///     .ca_certificate(std::fs::read_to_string("ca.pem")?)
///     .client_identity(std::fs::read_to_string("client.pem")?, std::fs::read_to_string("client-key.pem")?);
/// let builder = distlock::Client::builder("etcd://h1:2379").tls(tls);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    pub(crate) ca: Option<String>,
    pub(crate) identity: Option<(String, String)>,
}

impl Tls {
    /// TLS with nothing but the default roots.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only servers whose certificate this CA has signed (PEM, one certificate or several).
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<String>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Shows this certificate to servers that ask for one (both PEM).
    #[must_use]
    pub fn client_identity(mut self, certificate_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        self.identity = Some((certificate_pem.into(), key_pem.into()));
        self
    }
}

/// Never shows the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("ca", &self.ca.is_some()).field("identity", &self.identity.is_some()).finish()
    }
}
