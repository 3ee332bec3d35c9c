//! Certificates in the form that rustls uses.

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{PrivateKeyDer, pem::PemObject},
};

pub(crate) use crate::backend::credentials::host;
use crate::backend::{certificates, secret::Secret, tls::Material};
use crate::{backend::remote::Remote, error::Error};

/// The servers that a client without a CA trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    None,
    /// Servers with certificates that the operating system trusts.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    System,
}

/// Checks the settings of TLS, if it is used. A CA must be known, and certificates must be able to
/// name all endpoints.
#[cfg_attr(feature = "etcd", allow(dead_code))] // It checks by the system's roots without a CA.
pub(crate) fn check(remote: &Remote, store: &str, otherwise: Otherwise) -> Result<(), Error> {
    let invalid = |reason: String| Error::InvalidArgument { argument: "tls", reason };
    let Some(tls) = &remote.tls else { return Ok(()) };
    let material = tls.newest();
    if material.ca.is_none() && otherwise == Otherwise::None {
        return Err(invalid(format!(
            "{store} needs the CA of its servers' certificates: pass it by ?ca_file= in the URL, \
             or by Tls::ca_certificate"
        )));
    }
    if material.server_name.is_none() {
        for endpoint in &remote.endpoints {
            certificates::is_name(host(endpoint)).map_err(invalid)?;
        }
    }
    Ok(())
}

/// Returns `None` if no root certificate is known.
#[cfg_attr(feature = "mysql", allow(dead_code))] // Its crate takes PEM texts.
pub(crate) fn config(material: &Material, otherwise: Otherwise) -> Option<ClientConfig> {
    let read = |pem: &Secret| certificates::certificates(pem.expose());
    let roots = match (&material.ca, otherwise) {
        (Some(ca), _) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(read(ca)?);
            roots
        }
        (None, Otherwise::None) => return None,
        (None, Otherwise::System) => system().filter(|roots| !roots.is_empty())?,
    };
    let builder = ClientConfig::builder_with_provider(certificates::provider());
    let builder = builder.with_safe_default_protocol_versions().ok()?.with_root_certificates(roots);
    match &material.identity {
        None => Some(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).ok()?;
            builder.with_client_auth_cert(read(certificate)?, key).ok()
        }
    }
}

/// Returns the roots of the operating system. `SSL_CERT_FILE` and `SSL_CERT_DIR` may name others.
/// They are read only once, because that takes milliseconds.
#[cfg(feature = "postgres")]
fn system() -> Option<RootCertStore> {
    static ROOTS: std::sync::LazyLock<RootCertStore> = std::sync::LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    Some(ROOTS.clone())
}

#[cfg(not(feature = "postgres"))]
fn system() -> Option<RootCertStore> {
    None
}
