//! Queries the servers of a URL directly, without a client of the library.

use std::{
    fmt, io,
    time::{Duration, Instant, SystemTime},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a server may take to reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server and its reply.
pub(crate) struct Server {
    pub(crate) address: String,
    /// The time that it took to connect.
    pub(crate) reached: io::Result<Duration>,
    pub(crate) version: Option<Version>,
    /// This machine's clock and the server's, which has a resolution of one second.
    pub(crate) clock: Option<(SystemTime, SystemTime)>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Etcd,
    ZooKeeper,
    /// It accepts only TLS, which this module does not use.
    Tls,
    /// It does not reply before a client has logged in.
    Login,
}

/// A server's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    kind: Kind,
    text: String,
}

impl Version {
    /// The oldest version that distlock supports.
    pub(crate) fn least(&self) -> &'static str {
        if self.kind == Kind::Etcd { "3.5" } else { "3.6" }
    }

    pub(crate) fn is_new_enough(&self) -> bool {
        let numbers = |text: &str| -> Vec<u32> {
            text.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
        };
        numbers(&self.text) >= numbers(self.least())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.kind == Kind::Etcd { "etcd" } else { "ZooKeeper" };
        write!(f, "{name} {}", self.text)
    }
}

impl Server {
    pub(crate) fn why_no_version(&self) -> &'static str {
        match self.kind {
            Kind::Etcd => "check that the server serves /version on this port",
            Kind::ZooKeeper => "to see the version, add `srvr` to 4lw.commands.whitelist",
            Kind::Tls => "doctor does not query versions over TLS; use the server's own tools",
            Kind::Login => "doctor does not query the versions of databases and Redis",
        }
    }

    async fn ask(address: String, kind: Kind) -> Self {
        let start = Instant::now();
        let connected = match timeout(PATIENCE, TcpStream::connect(&address)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::other("no reply within 2 s")),
        };
        let time = start.elapsed();
        let (reached, answer) = match connected {
            Ok(stream) => (Ok(time), answer(stream, &address, kind).await),
            Err(error) => (Err(error), None),
        };
        let answer = answer.unwrap_or_default();
        let version = version(kind, &answer);
        let date = answer.lines().find_map(|line| line.strip_prefix("Date: "));
        let clock = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok());
        let clock = clock.map(|there| (SystemTime::now(), there));
        Self { address, reached, version, clock, kind }
    }
}

/// Queries all servers of a URL, one after the other.
pub(crate) async fn servers(url: &str) -> Vec<Server> {
    let mut servers = Vec::new();
    for (address, kind) in addresses(url) {
        servers.push(Server::ask(address, kind).await);
    }
    servers
}

/// Returns how a store's servers are queried, and the default port of its URL. Returns `None` if
/// the scheme is unknown, or the store has no servers.
fn scheme(scheme: &str) -> Option<(Kind, u16)> {
    Some(match scheme {
        "etcd" => (Kind::Etcd, 2379),
        "etcds" => (Kind::Tls, 2379),
        "zk" | "zookeeper" => (Kind::ZooKeeper, 2181),
        "zks" => (Kind::Tls, 2281),
        "postgres" | "postgresql" => (Kind::Login, 5432),
        "mysql" => (Kind::Login, 3306),
        "redis" | "redlock" => (Kind::Login, 6379),
        "rediss" | "redlocks" => (Kind::Tls, 6379),
        "redis+sentinel" => (Kind::Login, 26379),
        "rediss+sentinel" => (Kind::Tls, 26379),
        _ => return None,
    })
}

/// Lists the servers of a URL, with their ports.
fn addresses(url: &str) -> Vec<(String, Kind)> {
    let Some((name, rest)) = url.split_once("://") else { return Vec::new() };
    let Some((kind, port)) = scheme(name) else { return Vec::new() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if rest.contains('@') {
        // The library refuses the URL. The part before a `/` may be a part of the password.
        return Vec::new();
    }
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    // A Unix socket, whose directory has no port to connect to.
    let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
    let hosts = hosts.filter(|host| !host.contains('%'));
    let address = |host: &str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        if has_port { host.to_owned() } else { format!("{host}:{port}") }
    };
    hosts.map(|host| (address(host), kind)).collect()
}

async fn answer(mut stream: TcpStream, address: &str, kind: Kind) -> Option<String> {
    let question = match kind {
        Kind::Etcd => {
            format!("GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        }
        Kind::ZooKeeper => "srvr".to_owned(),
        Kind::Tls | Kind::Login => return None,
    };
    let exchange = async {
        stream.write_all(question.as_bytes()).await?;
        let mut answer = Vec::new();
        // No reply with a version is longer.
        stream.take(1 << 16).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(PATIENCE, exchange).await.ok()?.ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

fn version(kind: Kind, answer: &str) -> Option<Version> {
    let text = match kind {
        Kind::Etcd => answer.split_once("\"etcdserver\":\"")?.1.split('"').next()?,
        Kind::ZooKeeper => {
            answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?
        }
        Kind::Tls | Kind::Login => return None,
    };
    let text = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    Some(Version { kind, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_scheme() {
        for (url, expected) in [
            ("etcd://h1,h2:1", &["h1:2379", "h2:1"][..]),
            ("etcds://u:p@h/ns", &["h:2379"]),
            ("zk://h,[::1]", &["h:2181", "[::1]:2181"]),
            ("zks://h", &["h:2281"]),
            ("postgres://u:p@h/db/ns?sslmode=verify-full", &["h:5432"]),
            ("postgresql://[::1]:1/db", &["[::1]:1"]),
            ("postgres://app@%2Fvar%2Frun%2Fpostgresql/db", &[]),
            ("postgres://app@/db?host=/tmp", &[]),
            ("mysql://app@h/db", &["h:3306"]),
            ("redis://h", &["h:6379"]),
            ("rediss://:p@h/0", &["h:6379"]),
            ("redis+sentinel://a,b:1/m", &["a:26379", "b:1"]),
            ("rediss+sentinel://a/m", &["a:26379"]),
            ("redlock://a,b,c", &["a:6379", "b:6379", "c:6379"]),
            ("redlocks://a", &["a:6379"]),
            ("sqlite:///var/lib/app/locks.db", &[]),
            ("etcd://root:gehe/im@h", &[]),
            ("etcd://root:gehe?im@h", &[]),
            ("nonsense", &[]),
        ] {
            let found: Vec<_> = addresses(url).into_iter().map(|(address, _)| address).collect();
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn versions_are_read() {
        let etcd = "HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.5.16\",\"etcdcluster\":\"3.5.0\"}";
        let zookeeper = "Zookeeper version: 3.4.13-2d71af4dbe22, built on 2018\nLatency";
        let etcd = version(Kind::Etcd, etcd).expect("a version");
        assert_eq!((etcd.to_string().as_str(), etcd.is_new_enough()), ("etcd 3.5.16", true));
        let old = version(Kind::ZooKeeper, zookeeper).expect("a version");
        assert_eq!((old.to_string().as_str(), old.is_new_enough()), ("ZooKeeper 3.4.13", false));
        assert_eq!(version(Kind::ZooKeeper, "srvr is not executed"), None);
    }
}
