//! The connection's certificates, which may be replaced while it is used.

use std::sync::Arc;

use zookeeper_client::{StateWatcher, TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions};

use crate::{
    backend::{
        certificates,
        remote::Remote,
        secret::Secret,
        source::Source,
        tls::Material,
        trust::{self, Otherwise},
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
    /// `None`: there is to be none.
    pub(super) fn new(remote: &Remote) -> Result<Option<Self>, Error> {
        let invalid =
            |reason: &str| Error::InvalidArgument { argument: "tls", reason: reason.into() };
        let Some(source) = remote.tls.clone() else { return Ok(None) };
        // The crate relies on rustls's.
        certificates::provider();
        // zookeeper-client panics on a host that no certificate can name.
        trust::check(remote, "ZooKeeper", Otherwise::None)?;
        let material = source.newest();
        if material.server_name.is_some() {
            return Err(invalid(
                "ZooKeeper's client checks the host of the URL alone: leave Tls::server_name out, \
                 and name the servers as their certificates do",
            ));
        }
        // Its words on PEM that it can't read repeat lines of it.
        let unusable = || invalid("the certificates can't be used");
        let certificates = certs(&material).ok_or_else(unusable)?;
        let certificates = Secret::new(TlsDynamicCerts::new(certificates));
        Ok(Some(Self { source, certificates, given: Mutex::new(material) }))
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
