//! TLS material, the same for every backend.

use std::fmt;

use crate::{backend::secret::Secret, error::Error};

/// How to secure the connection to the servers: PEM texts, not file names.
///
/// Without a CA, etcd's servers are checked against the operating system's roots. For ZooKeeper a
/// CA has to be given.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = distlock::Tls::new()
///     .ca_certificate(std::fs::read_to_string("ca.pem")?)
///     .client_identity(
///         std::fs::read_to_string("client.pem")?,
///         std::fs::read_to_string("client-key.pem")?,
///     );
/// let builder = distlock::Client::builder("etcd://h1:2379").tls(tls);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    pub(crate) ca: Option<String>,
    /// The certificate and its key.
    pub(crate) identity: Option<(String, Secret)>,
}

impl Tls {
    /// TLS with neither a CA nor an identity of its own.
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
    pub fn client_identity(
        mut self,
        certificate_pem: impl Into<String>,
        key_pem: impl Into<String>,
    ) -> Self {
        self.identity = Some((certificate_pem.into(), Secret::new(key_pem.into())));
        self
    }

    /// Sees that each text is at least of the right kind: a mix-up (a file name, the key for the
    /// certificate) is told before anything is sent.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is = |pem: &str, kind: &str| {
            pem.contains("-----BEGIN ") && pem.contains(&format!("{kind}-----"))
        };
        let wrong = if self.ca.as_ref().is_some_and(|pem| !is(pem, "CERTIFICATE")) {
            "the CA is not a PEM text with a CERTIFICATE in it"
        } else if self.identity.as_ref().is_some_and(|(pem, _)| !is(pem, "CERTIFICATE")) {
            "the client's certificate is not a PEM text with a CERTIFICATE in it"
        } else if self.identity.as_ref().is_some_and(|(_, key)| !is(key.expose(), "PRIVATE KEY")) {
            "the client's key is not a PEM text with a PRIVATE KEY in it"
        } else {
            return Ok(());
        };
        Err(Error::InvalidConfig { option: "tls", reason: wrong.into() })
    }
}

/// Never shows the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}
