//! Creates the backend of each store that is compiled in.

use std::sync::Arc;

use crate::{
    backend::{Backend, memory, remote::Remote},
    client::url::Scheme,
    error::{Error, Result},
};

pub(super) fn of(scheme: Scheme, remote: Remote) -> Result<Arc<dyn Backend>> {
    let name = scheme.name();
    if !scheme.is_remote() && (remote.credentials.is_some() || remote.tls.is_some()) {
        let option = if remote.tls.is_some() { "tls" } else { "credentials" };
        let reason = format!("{name}:// has neither users nor a network: leave out {option}");
        return Err(Error::invalid(option, reason));
    }
    let backend: Arc<dyn Backend> = match scheme {
        Scheme::Memory => Arc::new(memory::Memory::new(&remote)),
        #[cfg(feature = "etcd")]
        Scheme::Etcd => Arc::new(crate::backend::etcd::Etcd::new(remote)?),
        #[cfg(feature = "mysql")]
        Scheme::Mysql => Arc::new(crate::backend::mysql::Mysql::new(remote)?),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => Arc::new(crate::backend::postgres::Postgres::new(remote)?),
        #[cfg(feature = "redis")]
        Scheme::Redis => Arc::new(crate::backend::redis::Redis::new(remote)?),
        #[cfg(feature = "redlock")]
        Scheme::Redlock => Arc::new(crate::backend::redlock::Redlock::new(remote)?),
        #[cfg(feature = "sqlite")]
        Scheme::Sqlite => Arc::new(crate::backend::sqlite::Sqlite::new(&remote)?),
        #[cfg(feature = "zookeeper")]
        Scheme::ZooKeeper => Arc::new(crate::backend::zookeeper::ZooKeeper::new(remote)?),
        // With all features, no scheme is left.
        #[allow(unreachable_patterns)]
        _ => {
            let feature = if scheme == Scheme::ZooKeeper { "zookeeper" } else { name };
            return Err(Error::FeatureDisabled { scheme: name, feature });
        }
    };
    Ok(backend)
}
