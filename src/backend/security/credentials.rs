//! The user and the password of a client.

use std::{fmt, fs, io, net::IpAddr, path::Path};

use crate::backend::secret::Secret;

/// Holds a user and a password.
///
/// The function that is passed to [`Builder::credentials_from`](crate::Builder::credentials_from)
/// returns an `io::Result` of this type. The `Debug` output never contains the password.
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
    /// Creates credentials from a user and a password.
    ///
    /// The user must not be empty or contain `:`; otherwise, connecting fails.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: Secret::new(password.into()) }
    }

    /// Reads the password from a file, without the line break at its end.
    pub(crate) fn read(user: &str, password: &Path) -> io::Result<Self> {
        let text = read(password)?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Self::new(user, text.strip_suffix('\r').unwrap_or(text)))
    }

    /// Refuses a user that servers cannot understand or would misread.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.user.as_str() {
            "" => Err("the user name must not be empty"),
            user if user.contains(':') => Err("the user name must not contain `:`"),
            _ => Ok(()),
        }
    }
}

/// Hides the password, and a user with a `:`, which may contain a password by mistake.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.user.contains(':') { "***" } else { self.user.as_str() };
        f.debug_struct("Credentials")
            .field("user", &user)
            .field("password", &self.password)
            .finish()
    }
}

/// Reads a small file. An error names the file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
    })
}

/// Returns the host of a `host:port`.
pub(crate) fn host(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// Returns `true` if this `host:port` or socket is on this machine.
pub(crate) fn stays_here(endpoint: &str) -> bool {
    let host = host(endpoint);
    if host.starts_with('/') {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        // Resolvers must not query other hosts for this name (RFC 6761).
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_socket_hosts_are_recognized() {
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
