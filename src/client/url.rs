//! Connection URLs.

use std::fmt;

use crate::{
    backend::secret::Secret,
    error::{Error, Result},
};

/// The stores that a URL can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Memory,
    Etcd,
    ZooKeeper,
}

/// `etcd://h1:2379,h2`, `zk://h1,[::1]:2181` or `memory://name`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// `host:port` each; for memory the one name of the space, which may be empty.
    pub(crate) endpoints: Vec<String>,
}

/// A URL as it was given, perhaps with a password that does not belong there.
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
        let invalid =
            |reason: &str| Error::InvalidUrl { url: redacted(url), reason: reason.into() };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("write etcd://host:2379, zk://host:2181 or memory://name"));
        };
        let (scheme, port) = match scheme {
            "memory" => {
                return Ok(Self { scheme: Scheme::Memory, endpoints: vec![rest.to_owned()] });
            }
            "etcd" => (Scheme::Etcd, 2379),
            "zk" | "zookeeper" => (Scheme::ZooKeeper, 2181),
            _ => return Err(invalid("the scheme is not one of etcd, zk and memory")),
        };
        if rest.contains('@') {
            return Err(invalid(
                "leave user and password out of the URL and pass them to Builder::credentials",
            ));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(invalid(
                "only hosts may follow the scheme; a path goes to Builder::namespace",
            ));
        }
        let endpoints = rest.split(',').enumerate().map(|(index, endpoint)| {
            with_port(endpoint.trim(), port).ok_or_else(|| {
                let number = index + 1;
                let reason = format!(
                    "number {number} of what stands between the commas is not a host or host:port; \
                     an IPv6 address needs brackets, as in [::1]:{port}"
                );
                invalid(&reason)
            })
        });
        Ok(Self { scheme, endpoints: endpoints.collect::<Result<_>>()? })
    }
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
    const SCHEMES: [&str; 6] = ["memory", "etcd", "zk", "zookeeper", "http", "https"];
    let are_hosts =
        |list: &str| list.split(',').all(|endpoint| with_port(endpoint.trim(), 1).is_some());
    let shown = match url.split_once("://") {
        None if url.is_empty() || are_hosts(url) => url.to_owned(),
        None => "***".to_owned(),
        Some(("memory", name)) if !name.contains(['@', ':', '?', '#', '=']) => url.to_owned(),
        Some((scheme, rest))
            if scheme != "memory" && is_word(scheme) && (rest.is_empty() || are_hosts(rest)) =>
        {
            url.to_owned()
        }
        Some((scheme, _)) if !SCHEMES.contains(&scheme) => "***".to_owned(),
        Some((scheme, rest)) => {
            let hosts = rest.split(['/', '?', '#']).next().unwrap_or_default();
            match scheme != "memory" && !rest.contains('@') && are_hosts(hosts) {
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

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_get_their_ports() {
        let url = Url::parse("etcd://a, b:1,[::1],[::1]:5").unwrap();
        assert_eq!(url.scheme, Scheme::Etcd);
        assert_eq!(url.endpoints, ["a:2379", "b:1", "[::1]:2379", "[::1]:5"]);
        assert_eq!(Url::parse("zk://h/").unwrap().endpoints, ["h:2181"]);
        assert_eq!(Url::parse("memory://").unwrap().endpoints, [""]);
    }

    #[test]
    fn bad_urls_are_told() {
        for bad in [
            "",
            "etcd",
            "etcd:",
            "redis://h",
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
            "etcd://a/b",
            "zk://h:1/chroot",
            "etcd://a:1:2",
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
                format!("h/password={password}/x"),
                format!("h:2379,[::1,root:{password}"),
            ] {
                for scheme in [
                    "etcd://",
                    "zk://",
                    "zookeeper://",
                    "memory://",
                    "redis://",
                    "://",
                    "",
                    "etcd:/",
                    "etcd:",
                ] {
                    let (url, given) =
                        (format!("{scheme}{url}"), Given::new(&format!("{scheme}{url}")));
                    let mut shown = format!("{given:?} {given:#?}");
                    match given.parse() {
                        Err(error) => shown += &format!("{error} {error:?} {error:#?}"),
                        Ok(parsed) => assert_eq!(parsed.scheme, Scheme::Memory, "{url}"),
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
            ("h:2379", "h:2379"),
            ("memory://tests/a", "memory://tests/a"),
            ("memory://root:pw@x", "memory://***"),
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
