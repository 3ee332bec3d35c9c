//! Who a client is to a server, how it knows the server, and who may do what with its keys.

pub(crate) mod acl;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
))]
pub(super) mod certificates;
pub(crate) mod credentials;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(super) mod handshake;
pub(crate) mod secret;
pub(crate) mod source;
pub(crate) mod tls;
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
))]
pub(super) mod trust;
