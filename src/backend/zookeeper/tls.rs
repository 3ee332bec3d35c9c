//! TLS material, checked before anything is sent.

use rustls::{
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::CertifiedKey,
};
use zookeeper_client::TlsOptions;

use crate::{
    backend::{secret::Secret, tls::Tls},
    error::Error,
};

pub(super) fn options(tls: &Tls, endpoints: &[String]) -> Result<Secret<TlsOptions>, Error> {
    let invalid = |reason: String| Error::InvalidConfig { option: "tls", reason };
    // zookeeper-client leaves the choice to rustls, which panics if the program has compiled in
    // several (https://docs.rs/rustls/0.23/rustls/crypto/struct.CryptoProvider.html). A choice the
    // program has made stands.
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| {
        let provider = aws_lc_rs::default_provider();
        // An error means that somebody else was quicker, which is as good.
        let _ = provider.clone().install_default();
        provider.into()
    });
    for endpoint in endpoints {
        let host = endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host);
        // zookeeper-client panics on a host that no certificate can name.
        ServerName::try_from(host.trim_matches(['[', ']'])).map_err(|error| {
            invalid(format!("no certificate can name the host {host:?}: {error}"))
        })?;
    }
    let Some(ca) = &tls.ca else {
        return Err(invalid(
            "ZooKeeper's client brings no roots: pass the CA to Tls::ca_certificate".into(),
        ));
    };
    // The crates' words on PEM that they can't read repeat lines of it: of a key, too, which may
    // stand in a file beside its certificate.
    let unreadable = |what: &str| {
        invalid(format!("{what} can't be read: pass the whole PEM text with its line breaks"))
    };
    let options = TlsOptions::new().with_pem_ca(ca);
    let mut options = options.map_err(|_| unreadable("the CA"))?;
    if let Some((certificate, key)) = &tls.identity {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let chain = chain.map_err(|_| unreadable("the client's certificate"))?;
        if chain.is_empty() {
            return Err(unreadable("the client's certificate"));
        }
        let der = PrivateKeyDer::from_pem_slice(key.expose().as_bytes());
        let der = der.map_err(|_| unreadable("the client's key"))?;
        CertifiedKey::from_der(chain, der, &provider).map_err(|error| {
            invalid(format!("the client's certificate and key do not fit: {error}"))
        })?;
        options = options
            .with_pem_identity(certificate, key.expose())
            .map_err(|_| invalid("the client's certificate and key can't be used".into()))?;
    }
    Ok(Secret::new(options))
}
