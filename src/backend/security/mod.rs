//! Authentication of clients and servers, and access rights for keys.

pub(crate) mod acl;
#[cfg(feature = "_network")]
pub(super) mod certificates;
pub(crate) mod credentials;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(super) mod handshake;
pub(crate) mod secret;
#[cfg(any(feature = "postgres", feature = "redis", feature = "redlock"))]
pub(super) mod securing;
pub(crate) mod source;
pub(crate) mod tls;
#[cfg(feature = "_network")]
pub(super) mod trust;
