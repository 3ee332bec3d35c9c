//! The measured stores, and their URLs.

pub(crate) use distlock_testkit::store::Store as Backend;

/// The stores on which there is something to measure.
pub(crate) const ALL: [Backend; 7] = [
    Backend::Etcd,
    Backend::ZooKeeper,
    Backend::Postgres,
    Backend::Mysql,
    Backend::Redis,
    Backend::Redlock,
    Backend::Sqlite,
];

/// The URL of these servers; for a file the address is its path.
pub(crate) fn url_of(backend: Backend, servers: &[String]) -> String {
    url_as(backend, owner(backend), servers)
}

/// The URL for a user whose password is the user's name.
pub(crate) fn url_as(backend: Backend, user: &str, servers: &[String]) -> String {
    let servers = servers.join(",");
    match backend {
        Backend::Postgres => format!("postgres://{user}:{user}@{servers}/postgres"),
        Backend::Mysql => format!("mysql://{user}:{user}@{servers}/distlock"),
        Backend::Redis | Backend::Redlock => format!("{backend}://{user}:root@{servers}"),
        Backend::ZooKeeper => format!("zk://{servers}"),
        _ => format!("{backend}://{servers}"),
    }
}

/// The superuser of the servers of docker/single.sh.
pub(crate) fn owner(backend: Backend) -> &'static str {
    match backend {
        Backend::Postgres => "postgres",
        Backend::Redis | Backend::Redlock => "default",
        _ => "root",
    }
}

/// Returns the store with this name on the command line.
pub(crate) fn named(name: &str) -> Result<Backend, String> {
    let backend = name.parse()?;
    let is_measured = ALL.contains(&backend);
    is_measured.then_some(backend).ok_or_else(|| format!("nothing is measured on {backend}"))
}
