//! Certificates as rustls takes them.

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::backend::{certificates, secret::Secret, tls::Material};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "redlock"))]
use crate::{backend::remote::Remote, error::Error};

/// Of a `host:port`.
pub(crate) fn host(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// Whether there is a CA, and certificates can name all endpoints, where TLS is wanted.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "redlock"))]
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
#[cfg_attr(
    not(any(
        feature = "etcd",
        feature = "postgres",
        feature = "redis",
        feature = "redlock",
        feature = "zookeeper"
    )),
    allow(dead_code)
)]
pub(crate) fn config(material: &Material) -> Option<ClientConfig> {
    let read = |pem: &Secret| {
        CertificateDer::pem_slice_iter(pem.expose().as_bytes()).collect::<Result<Vec<_>, _>>().ok()
    };
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
