//! TLS material, checked before anything is sent.

use rustls::{
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::CertifiedKey,
};
use zookeeper_client::TlsOptions;

use crate::{error::Error, tls::Tls};

pub(super) fn options(tls: &Tls, endpoints: &[String]) -> Result<TlsOptions, Error> {
    let invalid = |reason: String| Error::InvalidConfig { option: "tls", reason };
    // zookeeper-client leaves the choice to rustls, which panics if the program has compiled in several
    // (https://docs.rs/rustls/0.23/rustls/crypto/struct.CryptoProvider.html). A choice the program has made stands.
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| {
        let provider = aws_lc_rs::default_provider();
        // An error means that somebody else was quicker, which is as good.
        let _ = provider.clone().install_default();
        provider.into()
    });
    for endpoint in endpoints {
        let host = endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host);
        // zookeeper-client panics on a host that no certificate can name.
        ServerName::try_from(host.trim_matches(['[', ']']))
            .map_err(|error| invalid(format!("no certificate can name the host {host:?}: {error}")))?;
    }
    let Some(ca) = &tls.ca else {
        return Err(invalid("ZooKeeper's client brings no roots: pass the CA to Tls::ca_certificate".into()));
    };
    let mut options = TlsOptions::new().with_pem_ca(ca).map_err(|error| invalid(format!("the CA: {error}")))?;
    if let Some((certificate, key)) = &tls.identity {
        let identity = |reason: String| invalid(format!("the client identity: {reason}"));
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| identity(error.to_string()))?;
        let secret = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| identity(error.to_string()))?;
        if chain.is_empty() {
            return Err(identity("no certificate in the PEM".into()));
        }
        CertifiedKey::from_der(chain, secret, &provider).map_err(|error| identity(error.to_string()))?;
        options = options.with_pem_identity(certificate, key).map_err(|error| identity(error.to_string()))?;
    }
    Ok(options)
}
