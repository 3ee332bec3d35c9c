//! The backend of each store, if it was built.

use std::sync::Arc;

use crate::{
    backend::{Backend, memory, remote::Remote},
    client::url::Scheme,
    error::{Error, Result},
};

pub(super) fn of(scheme: Scheme, remote: Remote) -> Result<Arc<dyn Backend>> {
    match scheme {
        Scheme::Memory if remote.credentials.is_some() || remote.tls.is_some() => {
            let option = if remote.tls.is_some() { "tls" } else { "credentials" };
            let reason = "memory:// has neither users nor a network: leave it out".into();
            Err(Error::InvalidConfig { option, reason })
        }
        Scheme::Memory => Ok(Arc::new(memory::Memory::new(&remote))),
        #[cfg(feature = "etcd")]
        Scheme::Etcd => Ok(Arc::new(crate::backend::etcd::Etcd::new(remote))),
        #[cfg(not(feature = "etcd"))]
        Scheme::Etcd => Err(Error::FeatureDisabled { scheme: "etcd", feature: "etcd" }),
        #[cfg(feature = "mysql")]
        Scheme::Mysql => Ok(Arc::new(crate::backend::mysql::Mysql::new(remote)?)),
        #[cfg(not(feature = "mysql"))]
        Scheme::Mysql => Err(Error::FeatureDisabled { scheme: "mysql", feature: "mysql" }),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => Ok(Arc::new(crate::backend::postgres::Postgres::new(remote)?)),
        #[cfg(not(feature = "postgres"))]
        Scheme::Postgres => Err(Error::FeatureDisabled { scheme: "postgres", feature: "postgres" }),
        #[cfg(feature = "redis")]
        Scheme::Redis => Ok(Arc::new(crate::backend::redis::Redis::new(remote)?)),
        #[cfg(not(feature = "redis"))]
        Scheme::Redis => Err(Error::FeatureDisabled { scheme: "redis", feature: "redis" }),
        #[cfg(feature = "redlock")]
        Scheme::Redlock => Ok(Arc::new(crate::backend::redlock::Redlock::new(remote)?)),
        #[cfg(not(feature = "redlock"))]
        Scheme::Redlock => Err(Error::FeatureDisabled { scheme: "redlock", feature: "redlock" }),
        Scheme::Sqlite if remote.credentials.is_some() || remote.tls.is_some() => {
            let option = if remote.tls.is_some() { "tls" } else { "credentials" };
            let reason = "sqlite:// has neither users nor a network: leave it out".into();
            Err(Error::InvalidConfig { option, reason })
        }
        #[cfg(feature = "sqlite")]
        Scheme::Sqlite => Ok(Arc::new(crate::backend::sqlite::Sqlite::new(&remote)?)),
        #[cfg(not(feature = "sqlite"))]
        Scheme::Sqlite => Err(Error::FeatureDisabled { scheme: "sqlite", feature: "sqlite" }),
        #[cfg(feature = "zookeeper")]
        Scheme::ZooKeeper => Ok(Arc::new(crate::backend::zookeeper::ZooKeeper::new(remote)?)),
        #[cfg(not(feature = "zookeeper"))]
        Scheme::ZooKeeper => Err(Error::FeatureDisabled { scheme: "zk", feature: "zookeeper" }),
    }
}
