//! The connection's certificates, which may be replaced while it is in use.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use zookeeper_client::{StateWatcher, TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions};

use crate::{
    backend::{certificates, remote::Remote, secret::Secret, source::Source, tls::Material, trust},
    error::Error,
    runtime::{executor::spawn_beside, mutex::Mutex},
};

/// TLS material, and the crate's cell from which each new connection takes it.
#[derive(Debug)]
pub(super) struct Tls {
    source: Source<Material>,
    certificates: Secret<TlsDynamicCerts>,
    /// The material in the cell.
    given: Mutex<Arc<Material>>,
}

impl Tls {
    /// Returns `None` if TLS is not configured.
    pub(super) fn new(remote: &Remote) -> Result<Option<Self>, Error> {
        let invalid =
            |reason: &str| Error::InvalidArgument { argument: "tls", reason: reason.into() };
        let Some(source) = remote.tls.clone() else { return Ok(None) };
        // The crate relies on rustls's default provider.
        certificates::provider();
        let material = source.newest();
        if material.server_name.is_some() {
            return Err(invalid(
                "the ZooKeeper client crate can verify only the host in the URL: remove \
                 server_name, and use the certificates' host names in the URL",
            ));
        }
        // Its error messages about invalid PEM repeat lines of it.
        let unusable = || invalid("a certificate or the key is invalid");
        let certificates = certs(&material).ok_or_else(unusable)?;
        let certificates = Secret::new(TlsDynamicCerts::new(certificates));
        Ok(Some(Self { source, certificates, given: Mutex::new(material) }))
    }

    /// Makes later connections of a session use the newest material.
    ///
    /// It is refreshed when the session's state changes, which happens when a connection ends.
    /// Requests and keepalives would not be sufficient: a busy session sends no keepalives, and a
    /// session that is cut off sends nothing. The first attempt to reconnect may still use the
    /// previous material.
    pub(super) fn follow(self: &Arc<Self>, mut state: StateWatcher) {
        let tls = Arc::clone(self);
        spawn_beside(async move {
            while !state.peek_state().is_terminated() {
                // This future is never dropped while it waits: see `identity.rs`.
                state.changed().await;
                tls.source.expire();
                tls.refresh();
            }
        });
    }

    fn refresh(&self) {
        let newest = self.source.newest();
        let mut given = self.given.lock();
        if Arc::ptr_eq(&given, &newest) {
            return;
        }
        if let Some(certificates) = certs(&newest) {
            self.certificates.expose().update(certificates);
        }
        *given = newest;
    }

    pub(super) fn options(&self) -> TlsOptions {
        self.refresh();
        TlsOptions::new().with_certs(self.certificates.expose().clone())
    }
}

fn certs(material: &Material) -> Option<TlsCerts> {
    let ca = match &material.ca {
        Some(ca) => TlsCa::from_pem(ca.expose()),
        None => TlsCa::from_pem(&pem(&trust::system().certificates)),
    };
    let mut certificates = TlsCerts::builder().with_ca(ca.ok()?);
    if let Some((certificate, key)) = &material.identity {
        let identity = TlsIdentity::from_pem(certificate.expose(), key.expose()).ok()?;
        certificates = certificates.with_identity(identity);
    }
    certificates.build().ok()
}

/// Encodes certificates as PEM, because the crate takes no others.
fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut pem = String::new();
    for certificate in certificates {
        pem += "-----BEGIN CERTIFICATE-----\n";
        // 48 bytes are a line of 64 characters.
        for line in certificate.chunks(48) {
            line.chunks(3).for_each(|three| pem.extend(base64(three)));
            pem.push('\n');
        }
        pem += "-----END CERTIFICATE-----\n";
    }
    pem
}

/// Encodes one to three bytes as four characters.
fn base64(bytes: &[u8]) -> [char; 4] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let byte = |index: usize| u32::from(bytes.get(index).copied().unwrap_or_default());
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    std::array::from_fn(|index| match index > bytes.len() {
        true => '=',
        false => char::from(DIGITS[(bits >> (18 - 6 * index)) as usize & 63]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_ca_the_roots_of_the_system_are_trusted() {
        let material = Material { ca: None, identity: None, server_name: None };
        let count = trust::system().certificates.len();
        match certs(&material) {
            None => assert_eq!(count, 0),
            Some(certs) => assert!(format!("{certs:?}").contains(&format!("({count} roots)"))),
        }
    }

    #[test]
    fn certificates_are_encoded_as_pem() {
        for length in [1, 2, 3, 47, 48, 49, 1000] {
            let bytes: Vec<u8> = (0..length).map(|index| (index * 37 % 251) as u8).collect();
            let pem = pem(&[CertificateDer::from(bytes.clone())]);
            assert_eq!(certificates::certificates(&pem).unwrap(), [CertificateDer::from(bytes)]);
        }
    }
}
