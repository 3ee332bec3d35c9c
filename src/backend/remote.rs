//! What a backend needs to know of its servers.

use std::time::Duration;

use crate::backend::{secret::Secret, tls::Tls};

/// What a backend over the network needs, checked.
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) endpoints: Vec<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: Option<Tls>,
}

/// User and password.
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

/// Nor a user that a password came with by mistake; such a one is refused.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = if self.user.contains(':') { "***" } else { self.user.as_str() };
        f.debug_struct("Credentials")
            .field("user", &user)
            .field("password", &self.password)
            .finish()
    }
}
