//! Certificates as rustls takes them.

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::backend::{certificates, secret::Secret, tls::Material};

/// Of a `host:port`.
pub(crate) fn host(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// `None` without a CA: the operating system's are not known here.
#[cfg_attr(
    not(any(feature = "etcd", feature = "postgres", feature = "redis", feature = "zookeeper")),
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
