//! The options of a client that its URL may name.

use std::{collections::BTreeMap, time::Duration};

use percent_encoding::percent_decode_str;

/// What stands behind the `?` of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) ttl: Option<Duration>,
    pub(crate) owner: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) recheck_interval: Option<Duration>,
    pub(crate) local_handover: Option<u32>,
}

const KNOWN: &str =
    "ttl, owner, connect_timeout, request_timeout, recheck_interval, local_handover";

impl Options {
    /// The reason why not names an option, and never its value.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        if query.contains(['@', '#']) {
            return Err("an `@` or `#` has to be written as %40 or %23".into());
        }
        let mut given = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err("options are written as ?name=value&name=value".into());
            };
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| "an option's value is not UTF-8".to_owned())?;
            if given.insert(name, value.into_owned()).is_some() {
                return Err("an option is there twice".into());
            }
        }
        let time = |value: String, name: &str| {
            humantime::parse_duration(&value)
                .map_err(|_| format!("{name} is not a time with its unit, such as 500ms or 15s"))
        };
        let mut time = |name| given.remove(name).map(|value| time(value, name)).transpose();
        let options = Self {
            ttl: time("ttl")?,
            connect_timeout: time("connect_timeout")?,
            request_timeout: time("request_timeout")?,
            recheck_interval: time("recheck_interval")?,
            owner: given.remove("owner"),
            local_handover: match given.remove("local_handover").map(|number| number.parse()) {
                None => None,
                Some(Ok(number)) => Some(number),
                Some(Err(_)) => return Err("local_handover is not a number".into()),
            },
        };
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        match given.into_keys().next() {
            None => Ok(options),
            Some(name) if is_word(name) => {
                Err(format!("there is no option {name}; there are {KNOWN}"))
            }
            Some(_) => Err(format!("there is no such option; there are {KNOWN}")),
        }
    }
}
