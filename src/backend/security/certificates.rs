//! Explains rustls' certificate errors, and names what to change.

use std::{error::Error as StdError, io, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, Error, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::CertifiedKey,
};

/// Returns the cryptographic provider of all stores, which the program may have chosen. `None`: the
/// features `tls` and `tls-ring` are off, and the builder refuses TLS.
///
/// `zookeeper-client` and `mysql_async` leave the choice to rustls, which panics if the program has
/// compiled in several (<https://docs.rs/rustls/0.23/rustls/crypto/struct.CryptoProvider.html>).
pub(crate) fn provider() -> Option<Arc<CryptoProvider>> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Some(Arc::clone(installed));
    }
    let provider = compiled_in()?;
    // An error means that another thread has installed one first, which is as good.
    let _ = provider.clone().install_default();
    Some(provider.into())
}

#[cfg(feature = "tls")]
fn compiled_in() -> Option<CryptoProvider> {
    Some(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(all(feature = "tls-ring", not(feature = "tls")))]
fn compiled_in() -> Option<CryptoProvider> {
    Some(rustls::crypto::ring::default_provider())
}

#[cfg(not(any(feature = "tls", feature = "tls-ring")))]
fn compiled_in() -> Option<CryptoProvider> {
    None
}

/// Checks that all of the material can be used. The crates' own errors on unreadable PEM repeat
/// lines of it. These may be lines of a key, which may be in the same file as its certificate.
pub(crate) fn check(
    ca: Option<&str>,
    identity: Option<(&str, &str)>,
    server_name: Option<&str>,
) -> Result<(), String> {
    let unreadable =
        |what: &str| format!("{what} cannot be read: pass the whole PEM text with its line breaks");
    if let Some(ca) = ca {
        let roots = certificates(ca).ok_or_else(|| unreadable("the CA"))?;
        let (usable, _) = RootCertStore::empty().add_parsable_certificates(roots);
        if usable == 0 {
            return Err(unreadable("the CA"));
        }
    }
    if let Some((certificate, key)) = identity {
        if key.contains("ENCRYPTED") {
            return Err("the client's key is encrypted: pass the decrypted key".to_owned());
        }
        let chain =
            certificates(certificate).ok_or_else(|| unreadable("the client's certificate"))?;
        let der = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| unreadable("the client's key"))?;
        let provider = provider().ok_or("neither the feature `tls` nor `tls-ring` is on")?;
        CertifiedKey::from_der(chain, der, &provider).map_err(|error| {
            format!("the client's certificate and key cannot be used together: {error}")
        })?;
    }
    server_name.map_or(Ok(()), is_name)
}

/// Checks that a certificate can name this host.
pub(crate) fn is_name(host: &str) -> Result<(), String> {
    ServerName::try_from(host).map(drop).map_err(|error| {
        format!("the host {host:?} is not a valid name for a certificate: {error}")
    })
}

/// Returns all certificates of a text, or `None` if there is none or one is unreadable.
pub(crate) fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// Explains an error that comes from a certificate.
pub(crate) fn explain(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        // The source of an I/O error is the source of the error inside it, not that error itself.
        let io = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = io.and_then(|inner| inner.downcast_ref());
        if let Some(error) = error.downcast_ref::<Error>().or(inner) {
            return words(error);
        }
        // h2 keeps only the text of the error that ended a connection.
        if let Some(alert) = io.and_then(|inner| alert(&inner.to_string())) {
            return words(&Error::AlertReceived(alert));
        }
        next = io.map(|inner| inner as _).or_else(|| error.source());
    }
    None
}

/// The alerts of servers that reject a client's certificate.
const ALERTS: [AlertDescription; 8] = [
    AlertDescription::CertificateRequired,
    AlertDescription::BadCertificate,
    AlertDescription::UnknownCA,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::AccessDenied,
];

fn alert(text: &str) -> Option<AlertDescription> {
    let is = |alert: &AlertDescription| text == Error::AlertReceived(*alert).to_string();
    ALERTS.into_iter().find(is)
}

fn words(error: &Error) -> Option<String> {
    use CertificateError as Wrong;
    let advice = match error {
        Error::InvalidCertificate(Wrong::UnknownIssuer) => {
            "the server's certificate was issued by an untrusted CA: pass that CA with ?ca_file= \
             in the URL, or with Tls::ca_certificate"
        }
        Error::InvalidCertificate(
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. },
        ) => {
            "the server's certificate is not valid for the host: use a name from the certificate \
             in the URL, or see Tls::server_name"
        }
        Error::InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. }) => {
            "the server's certificate has expired: renew it, and check the clock of this machine"
        }
        Error::InvalidCertificate(other) => {
            return Some(format!("the server's certificate was rejected: {other}"));
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires a client certificate: pass one with ?cert_file= and ?key_file= in \
             the URL, or with Tls::client_identity"
        }
        Error::AlertReceived(alert) if ALERTS.contains(alert) => {
            return Some(format!(
                "the server rejected the client's certificate, or requires one ({alert:?}); see \
                 Tls::client_identity"
            ));
        }
        _ => return None,
    };
    Some(advice.to_owned())
}
