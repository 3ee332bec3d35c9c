//! Connection URLs.

use crate::error::{Error, Result};

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

impl Url {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let invalid = |reason: &str| Error::InvalidUrl { url: redacted(url), reason: reason.into() };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("write etcd://host:2379, zk://host:2181 or memory://name"));
        };
        let (scheme, port) = match scheme {
            "memory" => return Ok(Self { scheme: Scheme::Memory, endpoints: vec![rest.to_owned()] }),
            "etcd" => (Scheme::Etcd, 2379),
            "zk" | "zookeeper" => (Scheme::ZooKeeper, 2181),
            _ => return Err(invalid("the scheme is not one of etcd, zk and memory")),
        };
        if rest.contains('@') {
            return Err(invalid("leave user and password out of the URL and pass them to Builder::credentials"));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(invalid("only hosts may follow the scheme; a path goes to Builder::namespace"));
        }
        let endpoints = rest.split(',').map(|endpoint| {
            let endpoint = endpoint.trim();
            with_port(endpoint, port).ok_or_else(|| {
                let reason = format!(
                    "{endpoint:?} is not a host or host:port; an IPv6 address needs brackets, as in [::1]:{port}"
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

/// The URL without what may be a password.
fn redacted(url: &str) -> String {
    let short: String = url.chars().take(200).collect();
    match (short.find("://"), short.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}://***{}", &short[..start], &short[end..]),
        _ => short,
    }
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

    #[test]
    fn passwords_do_not_show() {
        let error = Url::parse("etcd://root:secret@h").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
