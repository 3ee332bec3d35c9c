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
}

/// `etcd://h1:2379,h2`, `zks://user:password@h1,[::1]:2181/namespace?ttl=15s` or `memory://name`.
#[derive(Debug)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// `Some`: by TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) credentials: Option<Origin<Credentials>>,
    /// `host:port` each; for memory the one name of the space, which may be empty.
    pub(crate) endpoints: Vec<String>,
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
            return Err("write etcd://host:2379, zk://host:2181 or memory://name".into());
        };
        let (scheme, port, secure) = match scheme {
            "memory" => (Scheme::Memory, 0, false),
            "etcd" => (Scheme::Etcd, 2379, false),
            "etcds" => (Scheme::Etcd, 2379, true),
            "zk" | "zookeeper" => (Scheme::ZooKeeper, 2181, false),
            "zks" => (Scheme::ZooKeeper, 2281, true),
            _ => return Err("the scheme is not one of etcd, etcds, zk, zks and memory".into()),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
        let options = || query.map_or_else(|| Ok(Options::default()), Options::parse);
        if scheme == Scheme::Memory {
            let (endpoints, options) = (vec![rest.to_owned()], options()?);
            if options.tls()?.is_some() || options.password_file.is_some() {
                return Err("memory:// has neither users nor a network".into());
            }
            let (tls, credentials, namespace) = (None, None, None);
            return Ok(Self { scheme, tls, credentials, endpoints, namespace, options });
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
        let login = user.map(login).transpose()?;
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
        let namespace = Some(path).filter(|path| path.len() > 1).map(str::to_owned);
        // After all that may have been meant as a password.
        let options = options()?;
        let credentials = credentials(login, options.password_file.clone())?;
        let tls = match options.tls()? {
            Some(_) if !secure => {
                return Err("ca_file, cert_file, key_file and server_name are for etcds:// and \
                            zks://"
                    .into());
            }
            tls => tls.or(secure.then(Tls::new)),
        };
        Ok(Self { scheme, tls, credentials, endpoints, namespace, options })
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
    const SCHEMES: [&str; 8] =
        ["memory", "etcd", "etcds", "zk", "zks", "zookeeper", "http", "https"];
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
                        Ok(parsed) if parsed.scheme == Scheme::Memory => {}
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
