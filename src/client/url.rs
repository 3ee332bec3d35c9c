//! Connection URLs.

use std::{borrow::Cow, fmt};

use percent_encoding::percent_decode_str;

use super::options::Options;
use crate::{
    backend::{credentials::Credentials, secret::Secret, source::Origin, tls::Tls},
    error::{Error, Result},
};

/// The stores that a URL can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Memory,
    Etcd,
    ZooKeeper,
    Mysql,
    Postgres,
    Redis,
    Redlock,
    Sqlite,
}

impl Scheme {
    /// There is a network in between.
    pub(crate) fn is_remote(self) -> bool {
        !matches!(self, Self::Memory | Self::Sqlite)
    }
}

/// `etcd://h1:2379,h2`, `zks://user:password@h1,[::1]:2181/namespace?ttl=15s`,
/// `postgres://h1/database/namespace` (and so `mysql://`), `redis://h1/0/namespace`,
/// `redis+sentinel://s1,s2/service/namespace`, `sqlite:///path?namespace=/locks` or
/// `memory://name`.
#[derive(Debug)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// `Some`: by TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) credentials: Option<Origin<Credentials>>,
    /// `host:port` each; for memory the one name of the space, which may be empty; for SQLite the
    /// path of the file.
    pub(crate) endpoints: Vec<String>,
    /// On MySQL and PostgreSQL its name, on Redis its number.
    pub(crate) database: Option<String>,
    /// The endpoints are sentinels of Redis, and know a primary by this name.
    pub(crate) service: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) options: Options,
}

/// A URL as it was given, perhaps with a password in it.
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
        // No reason may repeat a part of the URL: that may be a part of a password.
        let invalid = |reason: String| Error::InvalidUrl { url: redacted(url), reason };
        Self::parts(url).map_err(invalid)
    }

    fn parts(url: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("write etcd://host:2379, zk://host:2181, postgres://host/database, \
                        mysql://host/database, redis://host:6379, sqlite:///path/of/a/file or \
                        memory://name"
                .into());
        };
        let sentinels = scheme.ends_with("+sentinel");
        let (scheme, port, secure) = match scheme {
            "memory" => (Scheme::Memory, 0, false),
            "etcd" => (Scheme::Etcd, 2379, false),
            "etcds" => (Scheme::Etcd, 2379, true),
            "zk" | "zookeeper" => (Scheme::ZooKeeper, 2181, false),
            "zks" => (Scheme::ZooKeeper, 2281, true),
            "mysql" => (Scheme::Mysql, 3306, false),
            "postgres" | "postgresql" => (Scheme::Postgres, 5432, false),
            "redis" => (Scheme::Redis, 6379, false),
            "rediss" => (Scheme::Redis, 6379, true),
            "redis+sentinel" => (Scheme::Redis, 26379, false),
            "rediss+sentinel" => (Scheme::Redis, 26379, true),
            "redlock" => (Scheme::Redlock, 6379, false),
            "sqlite" => (Scheme::Sqlite, 0, false),
            _ => {
                return Err("the scheme is not one of etcd, etcds, zk, zks, postgres, mysql, \
                            redis, rediss, redis+sentinel, rediss+sentinel, redlock, sqlite and \
                            memory"
                    .into());
            }
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
        let options = || query.map_or_else(|| Ok(Options::default()), Options::parse);
        if !scheme.is_remote() {
            return Self::local(scheme, rest, options()?);
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if path.contains(['@', '#']) || authority.contains('#') {
            return Err("a `/`, `@` or `#` of the user or the password has to be written as \
                        %2F, %40 or %23"
                .into());
        }
        let (user, hosts) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        let mut login = user.map(login).transpose()?;
        let redis = matches!(scheme, Scheme::Redis | Scheme::Redlock);
        if let Some((user, _)) = login.as_mut().filter(|_| redis) {
            // As all its clients do, which have known passwords for longer than users.
            if user.is_empty() {
                *user = "default".to_owned();
            }
        }
        let endpoints = hosts.split(',').enumerate().map(|(index, endpoint)| {
            with_port(endpoint.trim(), port).ok_or_else(|| {
                let number = index + 1;
                format!(
                    "number {number} of what stands between the commas is not a host or host:port; \
                     an IPv6 address needs brackets, as in [::1]:{port}"
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
        // After all that may have been meant as a password.
        let options = options()?;
        if options.ssl.is_some() && !matches!(scheme, Scheme::Mysql | Scheme::Postgres) {
            return Err("sslmode is for postgres:// and mysql://: leave it out".into());
        }
        if options.namespace.is_some() {
            return Err("the namespace stands behind the hosts, as their path".into());
        }
        if scheme != Scheme::Redis {
            options.without_redis()?;
        }
        let database = match options.db {
            Some(_) if !sentinels => {
                return Err(
                    "db is for redis+sentinel://: elsewhere the database stands behind the \
                            hosts, in their path"
                        .into(),
                );
            }
            Some(number) => Some(number.to_string()),
            None => database,
        };
        let secure = options.ssl.unwrap_or(secure);
        let credentials = credentials(login, options.password_file.clone())?;
        let tls = match options.tls()? {
            Some(_) if !secure => {
                return Err(
                    "ca_file, cert_file, key_file and server_name are for etcds://, zks://, \
                            rediss://, and with sslmode=verify-full postgres:// and mysql://"
                        .into(),
                );
            }
            tls => tls.or(secure.then(Tls::new)),
        };
        Ok(Self { scheme, tls, credentials, endpoints, database, service, namespace, options })
    }

    /// What has neither users nor a network.
    fn local(scheme: Scheme, rest: &str, mut options: Options) -> Result<Self, String> {
        let secured = options.tls()?.is_some() || options.ssl.is_some();
        options.without_redis()?;
        let (name, namespace) = match scheme {
            Scheme::Sqlite => (file(rest)?, options.namespace.take()),
            _ if options.namespace.is_some() => {
                return Err("on memory:// the namespace is the builder's".into());
            }
            _ => (rest.to_owned(), None),
        };
        if secured || options.password_file.is_some() {
            let name = if scheme == Scheme::Sqlite { "sqlite" } else { "memory" };
            return Err(format!("{name}:// has neither users nor a network"));
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

/// The path of a file, percent-escaped where it has to be.
fn file(path: &str) -> Result<String, String> {
    if path.contains(['@', ':', '#']) && path != ":memory:" {
        return Err(
            "sqlite:// has neither users nor a network: an `@`, `:` or `#` of the path has \
                    to be written as %40, %3A or %23"
                .into(),
        );
    }
    let path = percent_decode_str(path).decode_utf8().map_err(|_| "the path is not UTF-8")?;
    match &*path {
        "" => Err("write sqlite:///path/of/a/file or sqlite://relative/path".into()),
        ":memory:" => Err("for a store within this process write memory://name".into()),
        path if path.ends_with('/') => Err("the path is a directory's".into()),
        path if path.contains('\0') => Err("the path has a NUL in it".into()),
        path => Ok(path.to_owned()),
    }
}

/// The name of a database, which may be left out, and the path behind it.
fn database(path: &str) -> Result<(Option<String>, &str), String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, rest) = path.find('/').map_or((path, ""), |slash| path.split_at(slash));
    let name = percent_decode_str(name).decode_utf8();
    let name = name.map_err(|_| "the database's name is not UTF-8".to_owned())?;
    if name.contains('\0') {
        return Err("the database's name has a NUL in it".into());
    }
    Ok((Some(name.into_owned()).filter(|name| !name.is_empty()), rest))
}

/// The name by which sentinels know a primary and its replicas.
fn service(path: &str) -> Result<(Option<String>, &str), String> {
    let (name, rest) = database(path)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name {
        Some(name) if name.chars().all(fits) => Ok((Some(name), rest)),
        _ => Err("behind the sentinels stands the name that they know the primary by, as in \
                  redis+sentinel://host/mymaster"
            .into()),
    }
}

/// A database that has a number, 0 unless there is one.
fn numbered((database, path): (Option<String>, &str)) -> Result<(Option<String>, &str), String> {
    let digits = |text: &String| text.bytes().all(|byte| byte.is_ascii_digit());
    match database {
        Some(text) if !digits(&text) || text.parse::<u16>().is_err() => Err(
            "the first part of the path is a database's number, as in redis://host/0/app/locks; \
                 the namespace comes after it"
                .into(),
        ),
        database => Ok((database, path)),
    }
}

/// `user:password`, each percent-escaped, or a user alone.
fn login(text: &str) -> Result<(String, Option<Secret>), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+;=%".contains(c);
    let plain = |text: &str| {
        let decoded = text.chars().all(fits).then(|| percent_decode_str(text).decode_utf8().ok());
        decoded.flatten().map(Cow::into_owned).ok_or_else(|| {
            "percent-escape what is neither a letter nor a digit in the user and the password"
                .to_owned()
        })
    };
    let (user, password) =
        text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    Ok((plain(user)?, password.map(plain).transpose()?.map(Secret::new)))
}

fn credentials(
    login: Option<(String, Option<Secret>)>,
    file: Option<String>,
) -> Result<Option<Origin<Credentials>>, String> {
    Ok(match (login, file) {
        (None, None) => None,
        (Some((user, Some(password))), None) => Some(Origin::Fixed(Credentials { user, password })),
        (Some((user, None)), Some(file)) => {
            Some(Origin::changing(move || Credentials::read(&user, file.as_ref())))
        }
        (Some((_, None)), None) => {
            return Err("before the `@` there has to be user:password, or user with a \
                        password_file behind the `?`"
                .into());
        }
        (Some((_, Some(_))), Some(_)) => {
            return Err("there is both a password and a password_file".into());
        }
        (None, Some(_)) => {
            return Err("password_file needs a user: write user@ before the hosts".into());
        }
    })
}

/// `endpoint` with the default port if it has none; `None` if it is not an endpoint at all.
fn with_port(endpoint: &str, default: u16) -> Option<String> {
    let (host, port) = match endpoint.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (format!("[{host}]"), port)
        }
        None => {
            let (host, port) = endpoint.split_at(endpoint.find(':').unwrap_or(endpoint.len()));
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if host.is_empty() || !host.chars().all(fits) {
                return None;
            }
            (host.to_owned(), port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None if port.is_empty() => default,
        None => return None,
    };
    Some(format!("{host}:{port}"))
}

/// The longest URL that is shown.
const LONGEST: usize = 200;

/// What may be shown of a URL: what certainly is a scheme, host or port, and stars for the rest.
///
/// A password may have any characters, and a URL that has one may be malformed in any way. So a
/// host counts as one only where no `@` is anywhere and all that stands with it reads as hosts and
/// ports, too. Of a name in memory nothing is shown that looks like a user or a query.
fn redacted(url: &str) -> String {
    const SCHEMES: [&str; 17] = [
        "memory",
        "etcd",
        "etcds",
        "zk",
        "zks",
        "zookeeper",
        "mysql",
        "postgres",
        "postgresql",
        "redis",
        "rediss",
        "redis+sentinel",
        "rediss+sentinel",
        "redlock",
        "sqlite",
        "http",
        "https",
    ];
    let are_hosts =
        |list: &str| list.split(',').all(|endpoint| with_port(endpoint.trim(), 1).is_some());
    let shown = match url.split_once("://") {
        None if url.is_empty() || are_hosts(url) => url.to_owned(),
        None => "***".to_owned(),
        Some((scheme, name)) if is_local(scheme) && !name.contains(['@', ':', '?', '#', '=']) => {
            url.to_owned()
        }
        Some((scheme, rest))
            if !is_local(scheme) && is_word(scheme) && (rest.is_empty() || are_hosts(rest)) =>
        {
            url.to_owned()
        }
        Some((scheme, _)) if !SCHEMES.contains(&scheme) => "***".to_owned(),
        Some((scheme, rest)) => {
            let hosts = rest.split(['/', '?', '#']).next().unwrap_or_default();
            match !is_local(scheme) && !rest.contains('@') && are_hosts(hosts) {
                true => format!(
                    "{scheme}://{hosts}{}***",
                    rest.get(hosts.len()..=hosts.len()).unwrap_or_default()
                ),
                false => format!("{scheme}://***"),
            }
        }
    };
    shown.chars().take(LONGEST).collect()
}

/// What stands behind it is no host.
fn is_local(scheme: &str) -> bool {
    matches!(scheme, "memory" | "sqlite")
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn endpoints_get_their_ports() {
        let url = Url::parse("etcd://a, b:1,[::1],[::1]:5").unwrap();
        assert_eq!(url.scheme, Scheme::Etcd);
        assert_eq!(url.endpoints, ["a:2379", "b:1", "[::1]:2379", "[::1]:5"]);
        assert_eq!(Url::parse("zk://h/").unwrap().endpoints, ["h:2181"]);
        assert_eq!(Url::parse("zks://h").unwrap().endpoints, ["h:2281"]);
        assert_eq!(Url::parse("memory://").unwrap().endpoints, [""]);
    }

    #[test]
    fn all_of_it_is_read() {
        let url = "etcds://app:p%40ss%2F%3A@h1,h2:2/prod/locks?ttl=15s&owner=a%20b";
        let url = Url::parse(url).unwrap();
        assert!(url.tls.is_some());
        let Some(Origin::Fixed(credentials)) = url.credentials else { panic!("no credentials") };
        assert_eq!((&*credentials.user, &**credentials.password.expose()), ("app", "p@ss/:"));
        assert_eq!(url.endpoints, ["h1:2379", "h2:2"]);
        assert_eq!(url.namespace.as_deref(), Some("/prod/locks"));
        assert_eq!(url.options.ttl, Some(Duration::from_secs(15)));
        assert_eq!(url.options.owner.as_deref(), Some("a b"));
        let url = Url::parse("memory://a/b?ttl=1s").unwrap();
        assert_eq!((url.endpoints, url.namespace), (vec!["a/b".to_owned()], None));
    }

    #[test]
    fn a_database_stands_before_the_namespace() {
        let read = |url: &str| {
            let url = Url::parse(url).unwrap();
            assert_eq!(url.scheme, Scheme::Postgres);
            (url.database, url.namespace, url.tls.is_some())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read("postgres://h"), (None, None, false));
        assert_eq!(read("postgresql://u:p@h1,h2:1/"), (None, None, false));
        assert_eq!(read("postgres://h/a%20b?sslmode=disable"), (text("a b"), None, false));
        let secure = "postgres://h/db/app/locks?sslmode=verify-full&ca_file=/c";
        assert_eq!(read(secure), (text("db"), text("/app/locks"), true));
        assert_eq!(read("postgres://h//locks"), (None, text("/locks"), false));
        assert_eq!(Url::parse("postgres://a,b:1").unwrap().endpoints, ["a:5432", "b:1"]);
        let mysql = Url::parse("mysql://a,b:1/db/locks?sslmode=verify-full").unwrap();
        assert_eq!((mysql.scheme, mysql.tls.is_some()), (Scheme::Mysql, true));
        assert_eq!(mysql.endpoints, ["a:3306", "b:1"]);
        assert_eq!((mysql.database, mysql.namespace), (text("db"), text("/locks")));
    }

    #[test]
    fn a_database_of_redis_has_a_number() {
        let read = |url: &str| {
            let url = Url::parse(url).unwrap();
            assert_eq!(url.scheme, Scheme::Redis);
            let user = url.credentials.map(|origin| match origin {
                Origin::Fixed(credentials) => credentials.user,
                Origin::Changing(_) => panic!("fixed"),
            });
            (url.endpoints.join(","), url.database, url.namespace, url.tls.is_some(), user)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read("redis://h"), ("h:6379".to_owned(), None, None, false, None));
        assert_eq!(
            read("rediss://u:p@a,b:1/15/app/locks?ca_file=/c"),
            ("a:6379,b:1".to_owned(), text("15"), text("/app/locks"), true, text("u"))
        );
        assert_eq!(
            read("redis://:p@h//locks?allow_eviction=true"),
            ("h:6379".to_owned(), None, text("/locks"), false, text("default"))
        );
    }

    #[test]
    fn sentinels_know_a_primary_by_its_name() {
        let read = |url: &str| {
            let url = Url::parse(url).unwrap();
            assert_eq!(url.scheme, Scheme::Redis);
            let Url { endpoints, service, database, namespace, tls, options, .. } = url;
            (endpoints.join(","), service, database, namespace, tls.is_some(), options.replicas)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("redis+sentinel://a,b:1/mymaster"),
            ("a:26379,b:1".to_owned(), text("mymaster"), None, None, false, None)
        );
        assert_eq!(
            read("rediss+sentinel://u:p@a/m-1.x/app/locks?db=3&replicas=2&ca_file=/c"),
            ("a:26379".to_owned(), text("m-1.x"), text("3"), text("/app/locks"), true, Some(2))
        );
        assert_eq!(read("redis://a?replicas=32").5, Some(32));
    }

    #[test]
    fn a_file_is_named_by_its_path() {
        let read = |url: &str| {
            let url = Url::parse(url).unwrap();
            assert_eq!(url.scheme, Scheme::Sqlite);
            (url.endpoints.concat(), url.namespace, url.options.ttl)
        };
        assert_eq!(read("sqlite:///run/a/locks.db"), ("/run/a/locks.db".to_owned(), None, None));
        assert_eq!(read("sqlite://a%20b/%40%3a%3F%23").0, "a b/@:?#");
        let (_, namespace, ttl) = read("sqlite://a?namespace=/app/locks&ttl=3s");
        assert_eq!(namespace.as_deref(), Some("/app/locks"));
        assert_eq!(ttl, Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_is_in_files_is_named() {
        let url = "zks://app@h?password_file=/a&ca_file=/b&cert_file=/c&key_file=/d&sasl=true\
                   &allow_plaintext_credentials=true&acl=auth::cdrwa,world:anyone:r";
        let url = Url::parse(url).unwrap();
        assert!(matches!(url.credentials, Some(Origin::Changing(_))));
        assert!(url.tls.unwrap().has_files());
        assert!(url.options.sasl && url.options.allow_plaintext_credentials);
        assert_eq!(url.options.acl.as_deref(), Some("auth::cdrwa,world:anyone:r"));
    }

    #[test]
    fn bad_urls_are_told() {
        for bad in [
            "",
            "etcd",
            "etcd:",
            "nats://h",
            "etcd://",
            "etcd://a,,b",
            "etcd://:2379",
            "etcd://a:0",
            "etcd://a:x",
            "etcd://a:99999",
            "etcd://a b",
            "etcd://::1",
            "etcd://[::1",
            "etcd://[x]:1",
            "etcd://a:1:2",
            "etcd://user@a",
            "etcd://user:pass:word@a",
            "etcd://user:pass/word@a",
            "etcd://user:pass@word@a",
            "etcd://a#b",
            "etcd://a?tll=1s",
            "etcd://a?ttl",
            "etcd://a?ttl=1",
            "etcd://a?ttl=1s&ttl=2s",
            "etcd://user:pass@a?password_file=/b",
            "etcd://a?password_file=/b",
            "etcd://a?ca_file=/b",
            "etcds://a?cert_file=/b",
            "etcds://a?sasl=yes",
            "memory://a?ca_file=/b",
            "memory://a?b",
            "memory://a?sslmode=disable",
            "etcd://a?sslmode=disable",
            "postgres://a?sslmode=require",
            "mysql://a/b?sslmode=require",
            "postgres://a?ca_file=/b",
            "postgres://a/%ff",
            "postgres://a/b%00",
            "postgres://a?namespace=/b",
            "redis://h/locks",
            "redis://h/65536",
            "redis://h/-1/a",
            "redis://user@h",
            "redis://h?ca_file=/c",
            "redis://h?sslmode=verify-full",
            "redis://h?allow_eviction=yes",
            "etcd://h?allow_eviction=true",
            "memory://h?allow_eviction=true",
            "redis://h?bridge=redlock",
            "redis://h?bridge_prefix=a",
            "redlock://a,b,c?bridge=plain",
            "memory://h?bridge=plain",
            "redis://user:pass/word@h",
            "redis://h?replicas=0",
            "redis://h?replicas=33",
            "redis://h?replicas=two",
            "redis://h?replicas=-1",
            "redis://h?db=1",
            "redlock://h?replicas=1",
            "sqlite:///a?replicas=1",
            "redis+sentinel://h",
            "redis+sentinel://h/",
            "redis+sentinel://h//locks",
            "redis+sentinel://h/a%20b",
            "redis+sentinel://h/a?db=x",
            "redis+sentinel://h/a?db=65536",
            "etcd+sentinel://h/a",
            "memory://a?namespace=/b",
            "sqlite://",
            "sqlite:///a/",
            "sqlite://:memory:",
            "sqlite://user:password@a",
            "sqlite://user@a",
            "sqlite://h:1/a",
            "sqlite://a#b",
            "sqlite://a%00",
            "sqlite://%ff",
            "sqlite://a?ca_file=/b",
            "sqlite://a?password_file=/b",
            "sqlite://a?sslmode=disable",
            "http://h",
        ] {
            assert!(matches!(Url::parse(bad), Err(Error::InvalidUrl { .. })), "{bad:?}");
        }
    }

    /// Passwords of every kind, in every place, well formed or not.
    #[test]
    fn passwords_do_not_show() {
        let passwords = [
            "secret",
            "se/cret",
            "se@cret",
            "secret@",
            "se,cret",
            "cret,se",
            "se?cret",
            "se#cret",
            "se://cret",
            "se:cret",
            "se cret",
            "s%65cret",
            "[secret]",
            "etcd://secret",
            "secret/",
            "\u{e4}secret",
            "1234secret",
        ];
        for password in passwords {
            let long = "h".repeat(250);
            for url in [
                format!("root:{password}@h"),
                format!("root:{password}"),
                format!("root:{password}@h:2379,h2"),
                format!("h:2379,root:{password}@h2"),
                format!("root:{password}@"),
                format!("root:{password}@h@h"),
                format!(":{password}@h:1:2"),
                format!("{password}@h"),
                format!("{long},root:{password}@h"),
                format!("root:{password}{long}@h"),
                format!("h/?user=root&password={password}"),
                format!("h?password={password}"),
                format!("h:2379#password={password}"),
                format!("h:2379,[::1,root:{password}"),
            ] {
                for scheme in [
                    "etcd://",
                    "zk://",
                    "zookeeper://",
                    "memory://",
                    "sqlite://",
                    "redis://",
                    "://",
                    "",
                    "etcd:/",
                    "etcd:",
                ] {
                    let (url, given) =
                        (format!("{scheme}{url}"), Given::new(&format!("{scheme}{url}")));
                    // That is a host, as in all URLs.
                    if url.ends_with("@cret") {
                        continue;
                    }
                    let mut shown = format!("{given:?} {given:#?}");
                    match given.parse() {
                        Err(error) => shown += &format!("{error} {error:?} {error:#?}"),
                        // What has no users: it is a name or a path.
                        Ok(parsed) if !parsed.scheme.is_remote() => {}
                        Ok(parsed) => shown += &format!("{parsed:?} {parsed:#?}"),
                    }
                    // None of its parts, however the URL was taken apart.
                    assert!(!shown.contains("cret"), "{url}: {shown}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_a_password_is_shown() {
        for (url, shown) in [
            ("etcd://h1:2379,h2", "etcd://h1:2379,h2"),
            ("redis://h", "redis://h"),
            ("redis+sentinel://h/mymaster", "redis+sentinel://h/***"),
            ("h:2379", "h:2379"),
            ("memory://tests/a", "memory://tests/a"),
            ("memory://root:pw@x", "memory://***"),
            ("sqlite:///a/b.db", "sqlite:///a/b.db"),
            ("sqlite://root:pw@x", "sqlite://***"),
            ("sqlite:///a/b.db?x=y", "sqlite://***"),
            ("zk://h:1/chroot", "zk://h:1/***"),
            ("etcd://h?x=y", "etcd://h?***"),
            ("etcd://a:1:2", "etcd://***"),
            ("etcd://root:pw@h:1", "etcd://***"),
            ("etcd://", "etcd://"),
            ("", ""),
        ] {
            assert_eq!(redacted(url), shown);
        }
        assert_eq!(redacted(&"h,".repeat(500)).len(), 3, "it ends with nothing");
        assert_eq!(redacted(&format!("etcd://{}", "h".repeat(500))).len(), LONGEST);
    }
}
