//! Certificates in the form that rustls uses, and the CAs that a client trusts.

use std::sync::{Arc, LazyLock};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

pub(crate) use crate::backend::credentials::host;
use crate::{
    backend::{certificates, remote::Remote, secret::Secret, tls::Material},
    error::Error,
};

/// The CAs of the operating system, which a client trusts if no CA is given.
pub(crate) struct SystemRoots {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) store: Arc<RootCertStore>,
}

/// Returns the roots of the operating system. `SSL_CERT_FILE` and `SSL_CERT_DIR` may name others.
/// They are read only once, because that takes milliseconds.
pub(crate) fn system() -> &'static SystemRoots {
    static ROOTS: LazyLock<SystemRoots> =
        LazyLock::new(|| SystemRoots::of(rustls_native_certs::load_native_certs().certs));
    &ROOTS
}

impl SystemRoots {
    /// Keeps the usable ones of these certificates.
    fn of(mut certificates: Vec<CertificateDer<'static>>) -> Self {
        let mut store = RootCertStore::empty();
        certificates.retain(|one| store.add(one.clone()).is_ok());
        Self { certificates, store: Arc::new(store) }
    }

    fn check(&self) -> Result<(), String> {
        match self.certificates.is_empty() {
            false => Ok(()),
            true => {
                Err("this system has no root certificates: install them (on Linux, the package \
                     ca-certificates), or pass the servers' CA with ?ca_file= in the URL or with \
                     Tls::ca_certificate"
                    .into())
            }
        }
    }
}

/// Checks the settings of TLS, if it is used. A CA must be known, and certificates must be able to
/// name all endpoints.
pub(crate) fn check(remote: &Remote) -> Result<(), Error> {
    let invalid = |reason: String| Error::InvalidArgument { argument: "tls", reason };
    let Some(tls) = &remote.tls else { return Ok(()) };
    let material = tls.newest();
    if material.ca.is_none() {
        system().check().map_err(invalid)?;
    }
    if material.server_name.is_none() {
        for endpoint in &remote.endpoints {
            certificates::is_name(host(endpoint)).map_err(invalid)?;
        }
    }
    Ok(())
}

/// Returns `None` if the material cannot be used.
#[cfg_attr(feature = "mysql", allow(dead_code))] // Its crate takes PEM texts.
pub(crate) fn config(material: &Material) -> Option<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(certificates::provider()?);
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    let builder = builder.with_root_certificates(roots(material, system)?);
    match &material.identity {
        None => Some(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).ok()?;
            builder.with_client_auth_cert(read(certificate)?, key).ok()
        }
    }
}

/// Returns the given CAs, or those of the system if none is given.
fn roots<'a>(
    material: &Material,
    system: impl FnOnce() -> &'a SystemRoots,
) -> Option<Arc<RootCertStore>> {
    let Some(ca) = &material.ca else {
        return Some(Arc::clone(&system().store)).filter(|roots| !roots.is_empty());
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(read(ca)?);
    Some(Arc::new(roots))
}

fn read(pem: &Secret) -> Option<Vec<CertificateDer<'static>>> {
    certificates::certificates(pem.expose())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBjTCCATOgAwIBAgIUPPg0kqjJEJmcKYJ5zSLemjSaMNAwCgYIKoZIzj0EAwIw\n\
GzEZMBcGA1UEAwwQZGlzdGxvY2sgdGVzdCBDQTAgFw0yNjExMjkyMDIwMTlaGA8y\n\
MTI2MTEwNTIwMjAxOVowGzEZMBcGA1UEAwwQZGlzdGxvY2sgdGVzdCBDQTBZMBMG\n\
ByqGSM49AgEGCCqGSM49AwEHA0IABCxwUtND7iCaalthaSxHv5VfuQX3an/7zr8R\n\
sYg302ZEr212UXKghKIjbrNh5Ah7TEnVq4b3PLw+hAQyb+biuL6jUzBRMB0GA1Ud\n\
DgQWBBRMZtJ3paAYDRTPy7QpwlNriSCaljAfBgNVHSMEGDAWgBRMZtJ3paAYDRTP\n\
y7QpwlNriSCaljAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCf\n\
3TZpoF5Y9jZqOg7bZoOqbzIlug7ak7ReOe0FPBrTUQIgLVpWvs+UW8RQmlCELxYG\n\
X57ufNwqMRUxQQqs54dF5AM=\n\
-----END CERTIFICATE-----";

    fn material(ca: Option<&str>) -> Material {
        let ca = ca.map(|pem| Secret::new(pem.to_owned()));
        Material { ca, identity: None, server_name: None }
    }

    fn system(pem: &[&str]) -> SystemRoots {
        SystemRoots::of(
            pem.iter().filter_map(|pem| certificates::certificates(pem)).flatten().collect(),
        )
    }

    #[test]
    fn without_a_ca_the_roots_of_the_system_are_trusted() {
        let system = system(&[CA]);
        system.check().unwrap();
        let roots = roots(&material(None), || &system).unwrap();
        assert!(Arc::ptr_eq(&roots, &system.store) && roots.len() == 1);
    }

    #[test]
    fn a_given_ca_replaces_the_roots_of_the_system() {
        let unused = || panic!("the system's roots are not read");
        assert_eq!(roots(&material(Some(CA)), unused).unwrap().len(), 1);
    }

    #[test]
    fn a_system_without_roots_is_reported_with_what_to_do() {
        let empty = SystemRoots::of(vec![CertificateDer::from(b"unusable".as_slice())]);
        assert!(empty.certificates.is_empty());
        let reason = empty.check().unwrap_err();
        assert!(reason.contains("ca-certificates") && reason.contains("?ca_file="), "{reason}");
        assert!(roots(&material(None), || &empty).is_none());
    }
}
