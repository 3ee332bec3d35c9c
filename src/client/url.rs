//! Connection URLs.

mod endpoint;
mod libpq;
mod login;
mod path;
mod redacted;
pub(crate) mod scheme;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use self::scheme::Scheme;
use self::{
    endpoint::with_port,
    login::{credentials, login},
    path::{database, file, numbered, service},
    redacted::redacted,
    scheme::SCHEMES,
};
use super::options::Options;
use crate::{
    backend::{credentials::Credentials, secret::Secret, source::Origin, tls::Tls},
    error::{Error, Result},
};

/// A parsed URL: `etcd://h1:2379,h2`,
/// `zks://user:password@h1,[::1]:2181/namespace?session_ttl=15s`,
/// `postgres://h1/database/namespace` (`mysql://` likewise), `redis://h1/0/namespace`,
/// `redis+sentinel://s1,s2/service/namespace`, `sqlite:///path?namespace=/locks` or
/// `memory://name`.
#[derive(Debug)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// `Some` if the client connects with TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) credentials: Option<Origin<Credentials>>,
    /// Each is `host:port`, or `directory:port` for a Unix socket of PostgreSQL. For memory, it is
    /// the name of the space, which may be empty. On SQLite, it is the path of the file.
    pub(crate) endpoints: Vec<String>,
    /// The name of the database on MySQL and PostgreSQL, its number on Redis.
    pub(crate) database: Option<String>,
    /// The name of the service, if the endpoints are sentinels of Redis.
    pub(crate) service: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) options: Options,
}

/// A URL as it was given. It may contain a password.
#[derive(Clone)]
pub(crate) struct Given(Secret);

impl Given {
    pub(crate) fn new(url: &str) -> Self {
        Self(Secret::new(url.to_owned()))
    }

    pub(crate) fn parse(&self) -> Result<Url> {
        Url::parse(self.0.expose())
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        redacted(self.0.expose()).fmt(f)
    }
}

impl Url {
    fn parse(url: &str) -> Result<Self> {
        // No reason may repeat a part of the URL, which may be a part of a password.
        let invalid = |reason: String| Error::InvalidUrl { url: redacted(url), reason };
        Self::parts(url).map_err(invalid)
    }

    fn parts(url: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("the URL has no scheme: write, for example, etcd://host:2379, \
                        zk://host:2181, postgres://host/database, mysql://host/database, \
                        redis://host:6379, sqlite:///path/to/a/file or memory://name"
                .into());
        };
        if scheme == "mariadb" {
            return Err("MariaDB speaks MySQL's protocol: write mysql:// instead".into());
        }
        let sentinels = scheme.ends_with("+sentinel");
        let Some(&(_, scheme, port, secure)) = SCHEMES.iter().find(|(name, ..)| *name == scheme)
        else {
            return Err("the scheme is not one of etcd, etcds, zk, zookeeper, zks, postgres, \
                        postgresql, mysql, redis, rediss, redis+sentinel, rediss+sentinel, \
                        redlock, redlocks, sqlite and memory"
                .into());
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
        let postgres = scheme == Scheme::Postgres;
        let options = || match query {
            None => Ok(Options::default()),
            Some(query) if postgres => Options::parse(&libpq::options(query)),
            Some(query) => Options::parse(query),
        };
        if !scheme.is_remote() {
            return Self::local(scheme, rest, options()?);
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if path.contains(['@', '#']) || authority.contains('#') {
            return Err("write a `/`, `@` or `#` in the user or the password as %2F, %40 or %23; \
                        the path must not contain `@` or `#`"
                .into());
        }
        let (user, hosts) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        let mut login = user.map(login).transpose()?;
        let redis = matches!(scheme, Scheme::Redis | Scheme::Redlock);
        if let Some((user, _)) = login.as_mut().filter(|_| redis) {
            // As in other clients of Redis, which had passwords before it had users.
            if user.is_empty() {
                *user = "default".to_owned();
            }
        }
        let named = if hosts.is_empty() && postgres { options()?.host } else { None };
        let hosts = named.as_deref().unwrap_or(hosts);
        let endpoints = hosts.split(',').enumerate().map(|(index, endpoint)| {
            if let Some(socket) = postgres.then(|| libpq::socket(endpoint, port)).flatten() {
                return socket;
            }
            with_port(endpoint.trim(), port).ok_or_else(|| {
                let number = index + 1;
                format!(
                    "entry {number} in the list of hosts must be host or host:port; an IPv6 \
                     address needs brackets, as in [::1]:{port}"
                )
            })
        });
        let endpoints = endpoints.collect::<Result<_, _>>()?;
        let (service, path) = if sentinels { service(path)? } else { (None, path) };
        let (database, path) = match scheme {
            Scheme::Redis if sentinels => (None, path),
            Scheme::Mysql | Scheme::Postgres => database(path)?,
            Scheme::Redis => numbered(database(path)?)?,
            _ => (None, path),
        };
        let namespace = Some(path).filter(|path| path.len() > 1).map(str::to_owned);
        // Parsed only now, because a part of an unescaped password may look like options.
        let options = options()?;
        if options.ssl.is_some() && !matches!(scheme, Scheme::Mysql | Scheme::Postgres) {
            return Err("sslmode is only for postgres:// and mysql://: leave it out".into());
        }
        if options.namespace.is_some() {
            return Err(
                "the option namespace is only for sqlite://: write the namespace at the end \
                        of the path"
                    .into(),
            );
        }
        options.are_for(scheme)?;
        let database = match options.db {
            Some(_) if !sentinels => {
                return Err(
                    "db is only for redis+sentinel:// and rediss+sentinel://: with redis:// and \
                     rediss://, write the database as the path, after the hosts"
                        .into(),
                );
            }
            Some(number) => Some(number.to_string()),
            None => database,
        };
        let system_roots = postgres && query.is_some_and(libpq::names_system_roots);
        let secure = options.ssl.unwrap_or(secure || system_roots);
        if system_roots && (!secure || options.ca_file.is_some()) {
            return Err(
                "sslrootcert=system turns TLS on with the system's CAs: leave out sslmode=disable \
                 and ca_file"
                    .into(),
            );
        }
        if options.host.is_some() && named.is_none() {
            return Err("the URL names hosts twice: before the path and in the option host".into());
        }
        if let Some((_, password)) = login.as_mut()
            && matches!(scheme, Scheme::Mysql | Scheme::Postgres)
            && options.password_file.is_none()
        {
            // The server may trust the user, or authenticate it by a certificate or by the socket.
            password.get_or_insert_with(|| Secret::new(String::new()));
        }
        let credentials = credentials(login, options.password_file.clone())?;
        let tls = match options.tls()? {
            Some(_) if !secure => {
                return Err(
                    "ca_file, cert_file, key_file and server_name need TLS: use etcds://, zks:// \
                     (without server_name), rediss://, rediss+sentinel:// or redlocks://, or \
                     sslmode=verify-full with postgres:// or mysql://"
                        .into(),
                );
            }
            tls => tls.or(secure.then(Tls::new)),
        };
        Ok(Self { scheme, tls, credentials, endpoints, database, service, namespace, options })
    }

    /// Parses a URL of a store that has neither users nor a network.
    fn local(scheme: Scheme, rest: &str, mut options: Options) -> Result<Self, String> {
        let secured = options.tls()?.is_some() || options.ssl.is_some();
        options.are_for(scheme)?;
        let (name, namespace) = match scheme {
            Scheme::Sqlite => (file(rest)?, options.namespace.take()),
            _ if options.namespace.is_some() => {
                return Err(
                    "memory:// does not support the option namespace: use Builder::namespace"
                        .into(),
                );
            }
            _ => (rest.to_owned(), None),
        };
        if secured || options.password_file.is_some() {
            return Err(format!(
                "{}:// has neither users nor a network: leave out password_file and the options \
                 for TLS",
                scheme.name()
            ));
        }
        Ok(Self {
            scheme,
            tls: None,
            credentials: None,
            endpoints: vec![name],
            database: None,
            service: None,
            namespace,
            options,
        })
    }
}
