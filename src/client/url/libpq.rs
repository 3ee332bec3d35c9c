//! The parts of a URL that only libpq has, so that a `DATABASE_URL` works unchanged.
//!
//! <https://www.postgresql.org/docs/17/libpq-connect.html#LIBPQ-CONNSTRING>

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The option for the CAs of the operating system.
const SYSTEM_ROOTS: (&str, &str) = ("sslrootcert", "system");

/// Returns `true` if the URL trusts the system's CAs by name. libpq then verifies the server as
/// with `sslmode=verify-full`, also without `sslmode`.
pub(super) fn names_system_roots(query: &str) -> bool {
    query.split('&').any(|pair| pair.split_once('=') == Some(SYSTEM_ROOTS))
}

/// Translates libpq's options into distlock's names and units.
pub(super) fn options(query: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| {
        Some(match pair.split_once('=') {
            // The system's CAs are trusted if no CA is named. The caller turns TLS on.
            Some(SYSTEM_ROOTS) => return None,
            Some(("sslrootcert", path)) => format!("ca_file={path}"),
            Some(("sslcert", path)) => format!("cert_file={path}"),
            Some(("sslkey", path)) => format!("key_file={path}"),
            // Prisma's name for the option `pooler`.
            Some(("pgbouncer", "true")) => "pooler=transaction".to_owned(),
            Some(("connect_timeout", time)) if time.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("connect_timeout={time}s")
            }
            _ => pair.to_owned(),
        })
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the directory and the port of a Unix socket in place of a host; `None` for a host.
pub(super) fn socket(host: &str, port: u16) -> Option<Result<String, String>> {
    let (directory, port) = match host.rsplit_once(':') {
        Some((directory, port)) => (directory, port.parse().ok()),
        None => (host, Some(port)),
    };
    let directory = percent_decode_str(directory).decode_utf8().unwrap_or(Cow::Borrowed(""));
    let invalid = || {
        "for a Unix socket, give the path of its directory, and :port if it is not 5432".to_owned()
    };
    directory.starts_with('/').then(|| match port.filter(|port| *port != 0) {
        Some(port) if !directory.contains('\0') => Ok(format!("{directory}:{port}")),
        _ => Err(invalid()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_libpq_are_taken() {
        for (theirs, ours) in [
            ("sslmode=require&sslrootcert=system", "sslmode=require"),
            ("sslrootcert=/a&sslcert=/b&sslkey=/c", "ca_file=/a&cert_file=/b&key_file=/c"),
            ("connect_timeout=10&session_ttl=15s", "connect_timeout=10s&session_ttl=15s"),
            ("connect_timeout=500ms", "connect_timeout=500ms"),
            ("channel_binding=require", "channel_binding=require"),
            ("pgbouncer=true", "pooler=transaction"),
        ] {
            assert_eq!(options(theirs), ours);
        }
    }

    #[test]
    fn a_directory_is_a_socket() {
        for (host, endpoint) in [
            ("%2Fvar%2Frun%2Fpostgresql", Ok("/var/run/postgresql:5432")),
            ("/tmp:6432", Ok("/tmp:6432")),
            ("%2Ftmp:x", Err(())),
            ("%2Ftmp:0", Err(())),
            ("%2Ft%00mp", Err(())),
        ] {
            let found = socket(host, 5432).unwrap();
            assert_eq!(found.as_deref().map_err(|_| ()), endpoint, "{host}");
        }
        for host in ["h", "h:1", "[::1]:1", "127.0.0.1", ""] {
            assert_eq!(socket(host, 5432), None, "{host}");
        }
    }
}
