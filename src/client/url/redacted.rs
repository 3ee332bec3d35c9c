//! A URL without the parts that may be a password.

use super::{endpoint::with_port, scheme::SCHEMES};

/// The longest URL that is shown.
pub(super) const LONGEST: usize = 200;

/// Returns the scheme, hosts and ports of a URL where they are certain, and stars for the rest.
///
/// A password may contain any character, and a URL with a password may be malformed in any way.
/// Hosts are therefore shown only if the URL contains no `@` and the whole list parses as hosts and
/// ports. The name of a store in memory and the path of a file are shown only without `@`, `:`,
/// `?`, `#` and `=`.
pub(super) fn redacted(url: &str) -> String {
    let is_known = |name: &str| {
        SCHEMES.iter().any(|(known, ..)| *known == name) || matches!(name, "http" | "https")
    };
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
        Some((scheme, _)) if !is_known(scheme) => "***".to_owned(),
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

/// Returns `true` if a URL of this scheme contains no host.
fn is_local(scheme: &str) -> bool {
    matches!(scheme, "memory" | "sqlite")
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}
