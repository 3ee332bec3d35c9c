//! Which store, and the way to it.

use std::{fs, path::PathBuf, time::Duration};

use distlock::Client;

use crate::{args::StoreArgs, exit::Failure};

/// Where the URL is, if the command line does not say it.
pub(crate) const VARIABLE: &str = "DISTLOCK_URL";

const HOW: &str = "set DISTLOCK_URL to the store's URL, as in etcd://h1:2379,h2:2379 or \
                   zk://h1:2181,h2:2181, or pass --url or --url-file";

/// The URL that was given, or that of the user's own file on this host.
pub(crate) fn url(args: &StoreArgs) -> Result<String, Failure> {
    let url = match (&args.url, &args.url_file) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => {
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("--url-file {}: {error}", path.display()))
            })?;
            text.trim().to_owned()
        }
        (None, None) => match std::env::var(VARIABLE) {
            Ok(url) => url,
            Err(std::env::VarError::NotPresent) => match own_file() {
                Some(url) => url?,
                None => return Err(Failure::usage(format!("which store? {HOW}"))),
            },
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::usage(format!("{VARIABLE} is not UTF-8")));
            }
        },
    };
    if url.is_empty() {
        return Err(Failure::usage(format!("the URL is empty: {HOW}")));
    }
    if url.starts_with("memory:") {
        return Err(Failure::usage(
            "memory:// is a store within one process, which excludes nobody else: use one with \
             servers, etcd:// or zk://",
        ));
    }
    Ok(url)
}

/// The URL of the user's own file, in a directory that is made for it. `None`: nothing says where
/// the user's files are.
fn own_file() -> Option<Result<String, Failure>> {
    let said = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let folder = own_folder(said("XDG_STATE_HOME"), said("HOME"))?;
    if let Err(error) = fs::create_dir_all(&folder) {
        return Some(Err(Failure::usage(format!("{}: {error}: {HOW}", folder.display()))));
    }
    let path = folder.join("locks.db");
    let Some(path) = path.to_str() else {
        return Some(Err(Failure::usage(format!("{} is not UTF-8: {HOW}", path.display()))));
    };
    Some(Ok(format!("sqlite://{}", escaped(path))))
}

/// Where a program keeps what is to stay, by
/// <https://specifications.freedesktop.org/basedir-spec/latest/>: a relative path is none.
fn own_folder(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let state = state.filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute()).map(|home| home.join(".local/state"));
    state.or(home).map(|folder| folder.join("distlock"))
}

/// The path as it stands in a URL.
fn escaped(path: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let escape = |byte: u8| match fits(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.bytes().map(escape).collect()
}

/// Connects, with this TTL if it is given.
pub(crate) async fn connect(url: &str, ttl: Option<Duration>) -> Result<Client, Failure> {
    let mut builder = Client::builder(url);
    if let Some(ttl) = ttl {
        builder = builder.session_ttl(ttl);
    }
    Ok(builder.connect().await?)
}

/// A URL that a client has connected by, without the password. A user stays whose password is in a
/// file that the URL names.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let shown = match authority.rsplit_once('@') {
        Some((user, hosts)) if user.contains(':') => hosts,
        _ => authority,
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // An ACL may have the digest of a password in it.
    let options: Vec<_> = query.split('&').filter(|option| !option.starts_with("acl=")).collect();
    let options = options.join("&");
    let mark = if options.is_empty() { "" } else { "?" };
    format!("{scheme}://{shown}{path}{mark}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_file() {
        let folder = |state: Option<&str>, home: Option<&str>| {
            own_folder(state.map(Into::into), home.map(Into::into))
        };
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(folder(Some("/s"), Some("/h")), path("/s/distlock"));
        assert_eq!(folder(Some("s"), Some("/h")), path("/h/.local/state/distlock"));
        assert_eq!((folder(None, Some("h")), folder(None, None)), (None, None));
        assert_eq!(escaped("/a b/\u{e4}@.db"), "/a%20b/%C3%A4%40.db");
    }

    #[test]
    fn a_password_is_left_out() {
        for (url, without) in [
            ("etcd://h:1,i:2/ns?ttl=1s", "etcd://h:1,i:2/ns?ttl=1s"),
            ("etcds://u:p%40q@h:1,i:2/ns?ttl=1s", "etcds://h:1,i:2/ns?ttl=1s"),
            ("zk://u:p@h?owner=a%40b", "zk://h?owner=a%40b"),
            ("zk://u:p@q@h", "zk://h"),
            ("zk://u@h?password_file=/run/pw", "zk://u@h?password_file=/run/pw"),
            ("zk://h/ns?acl=digest:u:abc=:r&ttl=1s", "zk://h/ns?ttl=1s"),
            ("zk://h?acl=digest:u:abc=:r", "zk://h"),
            ("nonsense", ""),
        ] {
            assert_eq!(without_password(url), without);
        }
    }
}
