//! The connection's certificates, which may be replaced while it is used.

use std::sync::Arc;

use zookeeper_client::{StateWatcher, TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions};

use crate::{
    backend::{
        certificates,
        handshake::{self, Fault},
        secret::Secret,
        source::Source,
        tls::Material,
        trust,
    },
    error::Error,
    runtime::{executor::spawn_beside, mutex::Mutex},
};

/// TLS material, and the crate's cell with what each new connection takes.
#[derive(Debug)]
pub(super) struct Tls {
    source: Source<Material>,
    certificates: Secret<TlsDynamicCerts>,
    /// What is in there.
    given: Mutex<Arc<Material>>,
}

impl Tls {
    pub(super) fn new(source: Source<Material>, endpoints: &[String]) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidConfig { option: "tls", reason };
        // The crate relies on rustls's.
        certificates::provider();
        for endpoint in endpoints {
            // zookeeper-client panics on a host that no certificate can name.
            certificates::is_name(trust::host(endpoint)).map_err(invalid)?;
        }
        let material = source.newest();
        if material.server_name.is_some() {
            return Err(invalid(
                "ZooKeeper's client checks the host of the URL alone: leave Tls::server_name out, \
                 and name the servers as their certificates do"
                    .into(),
            ));
        }
        if material.ca.is_none() {
            return Err(invalid(
                "ZooKeeper needs the CA that its servers' certificates are of: pass it by \
                 ?ca_file= in the URL, or by Tls::ca_certificate"
                    .into(),
            ));
        }
        // Its words on PEM that it can't read repeat lines of it.
        let unusable = |()| invalid("the certificates can't be used".into());
        let certificates = certs(&material).ok_or(()).map_err(unusable)?;
        let certificates = Secret::new(TlsDynamicCerts::new(certificates));
        Ok(Self { source, certificates, given: Mutex::new(material) })
    }

    /// Has the later connections of a session take the newest: its state changes when one ends.
    /// Requests and keepalives are no occasion, as a session that is busy sends no keepalives, and
    /// one that is cut off nothing at all. The first attempt to connect again may still be made
    /// with what was the newest before.
    pub(super) fn follow(self: &Arc<Self>, mut state: StateWatcher) {
        let tls = Arc::clone(self);
        spawn_beside(async move {
            while !state.peek_state().is_terminated() {
                // Never dropped while it waits: see `identity.rs`.
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

    /// See [`handshake::fault`].
    pub(super) async fn fault(&self, endpoints: &[String]) -> Option<Fault> {
        handshake::fault(self.source.newest(), endpoints).await
    }
}

fn certs(material: &Material) -> Option<TlsCerts> {
    let ca = TlsCa::from_pem(material.ca.as_ref()?.expose()).ok()?;
    let mut certificates = TlsCerts::builder().with_ca(ca);
    if let Some((certificate, key)) = &material.identity {
        let identity = TlsIdentity::from_pem(certificate.expose(), key.expose()).ok()?;
        certificates = certificates.with_identity(identity);
    }
    certificates.build().ok()
}
