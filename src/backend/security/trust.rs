//! Certificates as rustls takes them.

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{PrivateKeyDer, pem::PemObject},
};

pub(crate) use crate::backend::credentials::host;
use crate::backend::{certificates, secret::Secret, tls::Material};
use crate::{backend::remote::Remote, error::Error};

/// Whether there is a CA, and certificates can name all endpoints, where TLS is wanted.
#[cfg_attr(feature = "etcd", allow(dead_code))] // It checks by the system's roots without a CA.
pub(crate) fn check(remote: &Remote, store: &str) -> Result<(), Error> {
    let invalid = |reason: String| Error::InvalidConfig { option: "tls", reason };
    let Some(tls) = &remote.tls else { return Ok(()) };
    let material = tls.newest();
    if material.ca.is_none() {
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

/// `None` without a CA: the operating system's are not known here.
#[cfg_attr(feature = "mysql", allow(dead_code))] // Its crate takes PEM texts.
pub(crate) fn config(material: &Material) -> Option<ClientConfig> {
    let read = |pem: &Secret| certificates::certificates(pem.expose());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(read(material.ca.as_ref()?)?);
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
