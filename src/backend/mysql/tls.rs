//! TLS material in the form that the driver crate uses.

use std::io;

use mysql_async::{ClientIdentity, SslOpts};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::backend::{certificates, tls::Material, trust};

pub(super) fn options(material: &Material) -> io::Result<SslOpts> {
    // The crate uses the process's provider, and panics if there are several and none was chosen.
    // This chooses one unless the program has.
    let _ = certificates::provider();
    let roots = match &material.ca {
        Some(ca) => usable(ca.expose())?,
        None => trust::system().certificates.clone(),
    };
    let roots = roots.iter().map(|one| one.to_vec().into()).collect();
    let options = SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots);
    let identity = material.identity.as_ref().map(|(certificate, key)| {
        let [certificate, key] = [certificate, key].map(|pem| pem.expose().as_bytes().to_vec());
        ClientIdentity::new(certificate.into(), key.into())
    });
    let name = material.server_name.clone();
    Ok(options.with_client_identity(identity).with_danger_tls_hostname_override(name))
}

/// Returns the usable certificates of a PEM text. The crate fails on one that is not, even among
/// others.
fn usable(pem: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let words = "the CA is not valid PEM: pass the whole text with its line breaks";
    let unreadable = |_| io::Error::other(words);
    let mut usable = Vec::new();
    for one in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let one = one.map_err(unreadable)?;
        if RootCertStore::empty().add(one.clone()).is_ok() {
            usable.push(one);
        }
    }
    Ok(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_ca_the_roots_of_the_system_are_trusted() {
        let material = Material { ca: None, identity: None, server_name: None };
        let options = options(&material).unwrap();
        assert_eq!(options.root_certs().len(), trust::system().certificates.len());
        // The crate's own list of CAs is not used.
        assert!(options.disable_built_in_roots());
    }
}
