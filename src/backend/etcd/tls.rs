//! TLS material in the form that the client crate uses.

use etcd_client::{Certificate, Identity, TlsOptions};

use crate::backend::{certificates, tls::Material, trust};

/// Returns the TLS settings, which contain the key: do not store or print them.
pub(super) fn options(material: &Material) -> TlsOptions {
    // The crate uses the process's provider, or one of its own choice.
    let _ = certificates::provider();
    let mut options = TlsOptions::new();
    options = match &material.ca {
        Some(ca) => options.ca_certificate(Certificate::from_pem(ca.expose())),
        None => options.trust_anchors(trust::system().store.roots.iter().cloned()),
    };
    if let Some((certificate, key)) = &material.identity {
        options = options.identity(Identity::from_pem(certificate.expose(), key.expose()));
    }
    if let Some(name) = &material.server_name {
        options = options.domain_name(name);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_ca_the_roots_of_the_system_are_trusted() {
        let material = Material { ca: None, identity: None, server_name: None };
        let shown = format!("{:?}", options(&material));
        assert_eq!(shown.matches("TrustAnchor {").count(), trust::system().store.len());
    }
}
