//! TLS material, the same for every store.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

#[cfg(feature = "_network")]
use crate::backend::certificates;
use crate::backend::{credentials::read, secret::Secret};

/// Configures the CA and the client certificate for TLS, as PEM texts or files.
///
/// Without a CA, servers are verified against the operating system's root certificates. The
/// environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` replace these. A process reads them
/// once.
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
///
/// # Replacing certificates
///
/// While a client is open, it rereads the files that
/// [`ca_certificate_file`](Self::ca_certificate_file) and
/// [`client_identity_files`](Self::client_identity_files) name. Tools such as cert-manager and
/// Vault may replace each file separately, or a whole folder through a link. If the new files
/// cannot be used, for example because the key of a certificate has not been written yet, the
/// client keeps the previous certificates.
///
/// Open connections are not affected: no store requests a certificate again, and no lock is lost.
/// On etcd, the first request that is sent a second or more after the change opens a new
/// connection, while a watch stays on its old connection until that connection ends. On ZooKeeper,
/// the client rereads the files when it opens a session and when the session's connection ends. The
/// first attempt to reconnect may still use the previous certificates. On the other stores, the
/// client rereads the files when it opens a connection, but at most once a second.
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Pem>,
    /// The certificate and its key.
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
}

#[derive(Clone)]
enum Pem {
    Text(Secret),
    File(PathBuf),
}

impl Pem {
    fn read(&self) -> io::Result<Secret> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => read(path).map(Secret::new),
        }
    }
}

impl Tls {
    /// Creates a configuration without a CA and without a client certificate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only servers whose certificates are signed by this CA.
    ///
    /// The text is in PEM format, and contains one or more CA certificates.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<String>) -> Self {
        self.ca = Some(Pem::Text(Secret::new(pem.into())));
        self
    }

    /// Trusts only servers whose certificates are signed by the CA in this file.
    ///
    /// The file is in PEM format, and contains one or more CA certificates. The client rereads the
    /// file: see [Replacing certificates](Self#replacing-certificates).
    #[must_use]
    pub fn ca_certificate_file(mut self, path: impl AsRef<Path>) -> Self {
        self.ca = Some(Pem::File(path.as_ref().into()));
        self
    }

    /// Presents this certificate to servers that request one.
    ///
    /// The certificate and the key are in PEM format. The key must not be encrypted.
    #[must_use]
    pub fn client_identity(
        mut self,
        certificate_pem: impl Into<String>,
        key_pem: impl Into<String>,
    ) -> Self {
        let [certificate, key] =
            [certificate_pem.into(), key_pem.into()].map(|pem| Pem::Text(Secret::new(pem)));
        self.identity = Some((certificate, key));
        self
    }

    /// Presents the certificate in these files to servers that request one.
    ///
    /// Both files are in PEM format, and the key must not be encrypted. The client rereads the
    /// files: see [Replacing certificates](Self#replacing-certificates).
    #[must_use]
    pub fn client_identity_files(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        let [certificate, key] =
            [certificate.as_ref(), key.as_ref()].map(|path| Pem::File(path.into()));
        self.identity = Some((certificate, key));
        self
    }

    /// Sets the name that the servers' certificates must have.
    ///
    /// The default is the host in the URL or, on Redis, the host that a sentinel or the cluster
    /// reports. Set the name if the certificates contain a different one, for example behind a
    /// proxy or a forwarded port. The name is a host name or an address, and applies to all
    /// servers.
    ///
    /// On ZooKeeper, this option makes [`connect`](crate::Builder::connect) fail with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), because the ZooKeeper client
    /// crate can verify only the host in the URL, or nothing at all.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Returns `true` if the material may change.
    pub(crate) fn has_files(&self) -> bool {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca.iter().chain(identity).any(|pem| matches!(pem, Pem::File(_)))
    }

    /// Reads the current material. An error says what cannot be used, and does not show it.
    pub(crate) fn read(&self) -> io::Result<Material> {
        let ca = self.ca.as_ref().map(Pem::read).transpose()?;
        let identity = match &self.identity {
            Some((certificate, key)) => Some((certificate.read()?, key.read()?)),
            None => None,
        };
        let material = Material { ca, identity, server_name: self.server_name.clone() };
        material.check().map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        Ok(material)
    }
}

/// Never shows the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish()
    }
}

/// The certificates and keys at one point in time.
#[cfg_attr(not(feature = "_network"), allow(dead_code))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Material {
    pub(crate) ca: Option<Secret>,
    pub(crate) identity: Option<(Secret, Secret)>,
    pub(crate) server_name: Option<String>,
}

impl Material {
    /// Checks that each text is at least of the right kind. A mix-up, such as a file name in place
    /// of a text, or the key in place of the certificate, fails before any request is sent.
    fn check(&self) -> Result<(), String> {
        let is = |pem: &Secret, kind: &str| {
            let pem = pem.expose();
            pem.contains("-----BEGIN ") && pem.contains(&format!("{kind}-----"))
        };
        let identity = self.identity.as_ref();
        let texts = [
            ("the CA", "CERTIFICATE", self.ca.as_ref()),
            ("the client's certificate", "CERTIFICATE", identity.map(|(pem, _)| pem)),
            ("the client's key", "PRIVATE KEY", identity.map(|(_, key)| key)),
        ];
        for (what, kind, pem) in texts {
            if pem.is_some_and(|pem| !is(pem, kind)) {
                return Err(format!("{what} must be in PEM format and contain a {kind}"));
            }
        }
        #[cfg(feature = "_network")]
        certificates::check(
            self.ca.as_ref().map(|pem| pem.expose().as_str()),
            identity.map(|(pem, key)| (pem.expose().as_str(), key.expose().as_str())),
            self.server_name.as_deref(),
        )?;
        Ok(())
    }
}
