//! TLS material, the same for every backend.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

#[cfg(feature = "_network")]
use crate::backend::certificates;
use crate::backend::{credentials::read, secret::Secret};

/// How to secure the connection to the servers: PEM texts, or files of them.
///
/// Without a CA, servers of etcd and PostgreSQL are checked against the operating system's roots.
/// For all others a CA has to be given.
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
/// # Certificates that are replaced
///
/// What [`ca_certificate_file`](Self::ca_certificate_file) and
/// [`client_identity_files`](Self::client_identity_files) name is read anew while the client lives,
/// as cert-manager and Vault replace it: each file by itself or a folder's link at once. What
/// cannot be used, such as a certificate whose key is not there yet, leaves the last one in place.
///
/// Connections that are open stay as they are: no store asks for a certificate again, and no
/// lock is lost. On etcd, the first request a second after the change goes by a new connection; a
/// watch stays on the old one until that ends. On the other stores they are read anew when the
/// session's connection ends, for those that take its place.
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
    /// TLS with neither a CA nor an identity of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only servers whose certificate this CA has signed (PEM, one certificate or several).
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<String>) -> Self {
        self.ca = Some(Pem::Text(Secret::new(pem.into())));
        self
    }

    /// The same, from a file that is read anew when it changes.
    #[must_use]
    pub fn ca_certificate_file(mut self, path: impl AsRef<Path>) -> Self {
        self.ca = Some(Pem::File(path.as_ref().into()));
        self
    }

    /// Shows this certificate to servers that ask for one (both PEM).
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

    /// The same, from files that are read anew when they change.
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

    /// The name that the servers' certificates have, where it is not the host's of the URL: behind
    /// a proxy or a port that is passed on. A host name or an address; all servers need the same.
    ///
    /// On ZooKeeper [`connect`](crate::Builder::connect) refuses it with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): its client crate checks the URL's
    /// host, and knows no other way but not to check at all.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Whether it may be another one at another time.
    pub(crate) fn has_files(&self) -> bool {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca.iter().chain(identity).any(|pem| matches!(pem, Pem::File(_)))
    }

    /// What it is now. The error says what cannot be read or used, and shows nothing of it.
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

/// What certificates and keys there are at one time.
#[cfg_attr(not(feature = "_network"), allow(dead_code))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Material {
    pub(crate) ca: Option<Secret>,
    pub(crate) identity: Option<(Secret, Secret)>,
    pub(crate) server_name: Option<String>,
}

impl Material {
    /// Sees that each text is at least of the right kind: a mix-up (a file name, the key for the
    /// certificate) is told before anything is sent.
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
                return Err(format!("{what} is not a PEM text with a {kind} in it"));
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
