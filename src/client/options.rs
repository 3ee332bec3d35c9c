//! The options of a client that its URL can set.

use std::{collections::BTreeMap, time::Duration};

use percent_encoding::percent_decode_str;

use super::url::scheme::Scheme;
use crate::backend::{bridge::Bridge, tls::Tls};

/// The options after the `?` of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) ttl: Option<Duration>,
    /// On SQLite, where the path is that of the file.
    pub(crate) namespace: Option<String>,
    /// On PostgreSQL: the hosts, or the directory of a Unix socket.
    pub(crate) host: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) recheck_interval: Option<Duration>,
    pub(crate) password_file: Option<String>,
    pub(crate) ca_file: Option<String>,
    pub(crate) cert_file: Option<String>,
    pub(crate) key_file: Option<String>,
    pub(crate) server_name: Option<String>,
    pub(crate) acl: Option<String>,
    pub(crate) sasl: bool,
    /// `sslmode`: whether TLS is on.
    pub(crate) ssl: Option<bool>,
    pub(crate) allow_plaintext_credentials: bool,
    /// On Redis.
    pub(crate) allow_eviction: bool,
    /// On Redis.
    pub(crate) bridge: Option<Bridge>,
    pub(crate) replicas: Option<u32>,
    /// On PostgreSQL: a pooler lends each connection for one transaction.
    pub(crate) pooled: bool,
    /// The database's number, if the path names a service.
    pub(crate) db: Option<u16>,
    /// On Redlock: the longest TTL of any client of these nodes.
    pub(crate) longest_ttl: Option<Duration>,
}

/// The most replicas that a client can wait for.
const MAX_REPLICAS: u32 = 32;

const KNOWN: &str = "session_ttl, owner, namespace, host, connect_timeout, request_timeout, \
                     recheck_interval, password_file, ca_file, cert_file, key_file, server_name, \
                     acl, sasl, sslmode, allow_plaintext_credentials, allow_eviction, bridge, \
                     bridge_prefix, replicas, pooler, db, longest_ttl";

/// The options that only `postgres://` has in addition: see `url/libpq.rs`.
const OF_LIBPQ: &str = "sslrootcert, sslcert, sslkey, pgbouncer=true";

impl Options {
    /// Returns the TLS that the options configure; `None` if none of them is about TLS.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, String> {
        let identity = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("cert_file and key_file must be set together".into()),
        };
        if self.ca_file.is_none() && identity.is_none() && self.server_name.is_none() {
            return Ok(None);
        }
        let mut tls = Tls::new();
        if let Some(ca) = &self.ca_file {
            tls = tls.ca_certificate_file(ca);
        }
        if let Some((certificate, key)) = identity {
            tls = tls.client_identity_files(certificate, key);
        }
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        Ok(Some(tls))
    }

    /// Refuses options of other stores.
    pub(crate) fn are_for(&self, scheme: Scheme) -> Result<(), String> {
        let given = [
            ("host", self.host.is_some(), Scheme::Postgres),
            ("pooler=transaction", self.pooled, Scheme::Postgres),
            ("allow_eviction", self.allow_eviction, Scheme::Redis),
            ("bridge", self.bridge.is_some(), Scheme::Redis),
            ("replicas", self.replicas.is_some(), Scheme::Redis),
            ("db", self.db.is_some(), Scheme::Redis),
            ("longest_ttl", self.longest_ttl.is_some(), Scheme::Redlock),
        ];
        match given.into_iter().find(|(_, given, of)| *given && *of != scheme) {
            Some((name, _, of)) => {
                let store = match of {
                    Scheme::Postgres => "PostgreSQL",
                    Scheme::Redlock => "Redlock",
                    _ if name == "db" => "Redis with sentinels",
                    _ => "Redis",
                };
                Err(format!("{name} is only for {store}: leave it out"))
            }
            None => Ok(()),
        }
    }

    /// Parses the options. An error names an option, and never its value.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        if query.contains(['@', '#']) {
            return Err("in an option, write `@` as %40 and `#` as %23".into());
        }
        let is_known = |name: &str| KNOWN.split(", ").any(|known| known == name);
        let mut given = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err("options are written as ?name=value&name=value".into());
            };
            let named = if is_known(name) { name } else { "an option" };
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| format!("the value of {named} is not UTF-8"))?;
            if given.insert(name, value.into_owned()).is_some() {
                return Err(format!("{named} is set twice"));
            }
        }
        let time = |value: String, name: &str| {
            humantime::parse_duration(&value)
                .map_err(|_| format!("{name} must be a number with a unit, such as 500ms or 15s"))
        };
        let mut time = |name| given.remove(name).map(|value| time(value, name)).transpose();
        let flag = |value: Option<String>, name: &str| match value.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(format!("{name} must be true or false")),
        };
        let options = Self {
            ttl: time("session_ttl")?,
            connect_timeout: time("connect_timeout")?,
            request_timeout: time("request_timeout")?,
            recheck_interval: time("recheck_interval")?,
            longest_ttl: time("longest_ttl")?,
            namespace: given.remove("namespace"),
            host: given.remove("host"),
            owner: given.remove("owner"),
            password_file: given.remove("password_file"),
            ca_file: given.remove("ca_file"),
            cert_file: given.remove("cert_file"),
            key_file: given.remove("key_file"),
            server_name: given.remove("server_name"),
            acl: given.remove("acl"),
            sasl: flag(given.remove("sasl"), "sasl")?,
            ssl: match given.remove("sslmode").as_deref() {
                None => None,
                Some("disable") => Some(false),
                // libpq's `require` does not authenticate the server. distlock always does.
                Some("require" | "verify-full") => Some(true),
                Some(_) => {
                    return Err("sslmode must be disable, require or verify-full: with TLS, the \
                                server's certificate is always verified in full"
                        .into());
                }
            },
            allow_plaintext_credentials: flag(
                given.remove("allow_plaintext_credentials"),
                "allow_plaintext_credentials",
            )?,
            allow_eviction: flag(given.remove("allow_eviction"), "allow_eviction")?,
            bridge: bridge(given.remove("bridge"), given.remove("bridge_prefix"))?,
            replicas: match given.remove("replicas").map(|number| number.parse()) {
                None => None,
                Some(Ok(number)) if (1..=MAX_REPLICAS).contains(&number) => Some(number),
                Some(_) => return Err("replicas must be a number from 1 to 32".into()),
            },
            pooled: match given.remove("pooler").as_deref() {
                None | Some("session") => false,
                Some("transaction") => true,
                Some(_) => return Err("pooler must be transaction or session".into()),
            },
            db: match given.remove("db").map(|number| number.parse()) {
                None => None,
                Some(Ok(number)) => Some(number),
                Some(Err(_)) => return Err("db must be a database number, such as 0".into()),
            },
        };
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let name = match given.into_keys().next() {
            None => return Ok(options),
            Some(name) if is_word(name) => format!(" {name}"),
            Some(_) => String::new(),
        };
        Err(format!(
            "unknown option{name}; the options are {KNOWN}, and with postgres:// also {OF_LIBPQ}"
        ))
    }
}

fn bridge(layout: Option<String>, prefix: Option<String>) -> Result<Option<Bridge>, String> {
    match (layout, prefix) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("bridge_prefix needs the option bridge, as in bridge=plain".into()),
        (Some(layout), prefix) => match Bridge::new(&layout, prefix.unwrap_or_default()) {
            Some(bridge) => Ok(Some(bridge)),
            None => Err("bridge must be plain or redisson".into()),
        },
    }
}
