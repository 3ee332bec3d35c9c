//! Who a client says that it is.

use std::{fmt, fs, io, net::IpAddr, path::Path};

use crate::backend::secret::Secret;

/// User and password, for [`Builder::credentials_from`](crate::Builder::credentials_from). The
/// password is never printed.
///
/// ```
/// let credentials = distlock::Credentials::new("app", "s3cret");
/// assert!(!format!("{credentials:?}").contains("s3cret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl Credentials {
    /// This user with this password. The user must neither be empty nor contain `:`.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: Secret::new(password.into()) }
    }

    /// The password is what the file says, without the line break at its end.
    pub(crate) fn read(user: &str, password: &Path) -> io::Result<Self> {
        let text = read(password)?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Self::new(user, text.strip_suffix('\r').unwrap_or(text)))
    }

    /// What no server would understand, or take for something else.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.user.as_str() {
            "" => Err("the user must not be empty"),
            user if user.contains(':') => Err("the user must not contain `:`"),
            _ => Ok(()),
        }
    }
}

/// Nor a user that a password came with by mistake; such a one is refused.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.user.contains(':') { "***" } else { self.user.as_str() };
        f.debug_struct("Credentials")
            .field("user", &user)
            .field("password", &self.password)
            .finish()
    }
}

/// A small file's text. The error names the file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
    })
}

/// Of a `host:port`.
pub(crate) fn host(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// Whether what is sent to this `host:port`, or this socket, stays on this machine.
pub(crate) fn stays_here(endpoint: &str) -> bool {
    let host = host(endpoint);
    if host.starts_with('/') {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        // No resolver may ask others for it (RFC 6761).
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_the_machine_is_known() {
        for host in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "LocalHost:1"] {
            assert!(stays_here(host), "{host}");
        }
        assert!(stays_here("[::ffff:127.0.0.1]:1") && stays_here("/var/run/postgresql:5432"));
        for host in ["h:1", "10.0.0.1:1", "[fe80::1]:1", "localhost.example.org:1", "127.0.0.1.x:1"]
        {
            assert!(!stays_here(host), "{host}");
        }
    }
}
