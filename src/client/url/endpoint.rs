//! One host of a URL, and its port.

/// Adds the default port to an endpoint without one; `None` if the text is no endpoint.
pub(super) fn with_port(endpoint: &str, default: u16) -> Option<String> {
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
