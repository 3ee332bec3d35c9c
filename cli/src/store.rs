//! Finds the store's URL, and connects.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use distlock::Client;

use crate::{args::StoreArgs, exit::Failure};

/// The environment variable for the URL, which is read if the command line has none.
pub(crate) const VARIABLE: &str = "DISTLOCK_URL";

/// The file with the URL, which is read if neither the command line nor the environment has one.
const HOST_FILE: &str = "/etc/distlock/url";

const HOW: &str = "pass --url or --url-file, set DISTLOCK_URL, or write the URL into \
                   /etc/distlock/url, as in postgres://app@db/app or etcd://h1:2379,h2:2379; \
                   --local uses a file that belongs to this user and host";

/// Returns the configured URL. There is no default: with a lock on a store that only this host or
/// this user reaches, the same job would run on every host, without an error.
pub(crate) fn url(args: &StoreArgs) -> Result<String, Failure> {
    let variable = match std::env::var(VARIABLE) {
        Ok(url) => Some(url),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(Failure::usage(format!("{VARIABLE} is not UTF-8")));
        }
    };
    let url = match given(args, variable, Path::new(HOST_FILE))? {
        Some(url) => url,
        None => return Err(Failure::usage(format!("no store is configured: {HOW}"))),
    };
    if url.is_empty() {
        return Err(Failure::usage(format!("the URL is empty: {HOW}")));
    }
    if url.starts_with("memory:") {
        return Err(Failure::usage(
            "memory:// works within one process and cannot exclude other processes: use a store \
             that runs on a server, or --local",
        ));
    }
    Ok(url)
}

/// Returns the URL from the first source that has one: command line, environment, the host's file.
fn given(
    args: &StoreArgs,
    variable: Option<String>,
    host_file: &Path,
) -> Result<Option<String>, Failure> {
    if args.local {
        return own_file().map(Some);
    }
    if args.url.is_some() {
        return Ok(args.url.clone());
    }
    if let Some(path) = &args.url_file {
        let read = fs::read_to_string(path);
        let text =
            read.map_err(|error| Failure::usage(format!("--url-file {}: {error}", shown(path))))?;
        return Ok(Some(text.trim().to_owned()));
    }
    if variable.is_some() {
        return Ok(variable);
    }
    match fs::read_to_string(host_file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // The file may name another store, so there is no default.
        Err(error) => Err(Failure::usage(format!("{}: {error}", host_file.display()))),
    }
}

/// Returns a path for display. A misplaced URL, which may contain a password, is replaced.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains("://") { "***".to_owned() } else { text }
}

/// Returns the URL of the user's own SQLite file, and creates its directory.
fn own_file() -> Result<String, Failure> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let folder = own_folder(variable("XDG_STATE_HOME"), variable("HOME")).ok_or_else(|| {
        Failure::usage("--local needs an absolute path in XDG_STATE_HOME or HOME")
    })?;
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::usage(format!("--local: {}: {error}", folder.display())))?;
    let path = folder.join("locks.db");
    let path = path.to_str().ok_or_else(|| {
        Failure::usage(format!("--local: the path {} is not UTF-8", path.display()))
    })?;
    Ok(format!("sqlite://{}", escaped(path)))
}

/// Returns the directory for the program's state, as in
/// <https://specifications.freedesktop.org/basedir-spec/latest/>. Relative paths are ignored.
fn own_folder(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let state = state.filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute()).map(|home| home.join(".local/state"));
    state.or(home).map(|folder| folder.join("distlock"))
}

/// Escapes a path for a URL.
fn escaped(path: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let escape = |byte: u8| match fits(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.bytes().map(escape).collect()
}

/// Connects. A TTL that is passed here overrides the one in the URL.
pub(crate) async fn connect(url: &str, ttl: Option<Duration>) -> Result<Client, Failure> {
    let mut builder = Client::builder(url);
    if let Some(ttl) = ttl {
        builder = builder.session_ttl(ttl);
    }
    Ok(builder.connect().await?)
}

fn has_password(login: &str) -> bool {
    login.split_once(':').is_some_and(|(_, password)| !password.is_empty())
}

/// Removes the password from a URL, with its user. A user without a password, or whose password is
/// in a file, remains, because the URL is used to connect again.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let shown = match authority.rsplit_once('@') {
        Some((login, hosts)) if has_password(login) => hosts,
        _ => authority,
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // An ACL may contain the digest of a password.
    let options: Vec<_> = query.split('&').filter(|option| !option.starts_with("acl=")).collect();
    let options = options.join("&");
    let mark = if options.is_empty() { "" } else { "?" };
    format!("{scheme}://{shown}{path}{mark}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> StoreArgs {
        StoreArgs { url: None, url_file: None, local: false, json: false }
    }

    #[test]
    fn url_is_taken_from_first_source() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (host, own) = (folder.path().join("host"), folder.path().join("own"));
        let read = |args: &StoreArgs, variable: Option<&str>| {
            given(args, variable.map(Into::into), &host).map_err(|failure| failure.to_string())
        };
        let url = |url: &str| Ok(Some(url.to_owned()));
        assert_eq!(read(&args(), None), Ok(None), "there is no default");
        fs::write(&host, "zk://host\n").expect("it is written");
        fs::write(&own, "zk://own\n").expect("it is written");
        assert_eq!(read(&args(), None), url("zk://host"));
        assert_eq!(read(&args(), Some("zk://variable")), url("zk://variable"));
        assert_eq!(read(&args(), Some("")), url(""), "an empty variable hides nothing");
        let file = StoreArgs { url_file: Some(own), ..args() };
        assert_eq!(read(&file, Some("zk://variable")), url("zk://own"));
        let option = StoreArgs { url: Some("zk://option".into()), ..args() };
        assert_eq!(read(&option, Some("zk://variable")), url("zk://option"));
    }

    #[test]
    fn host_file_that_cannot_be_read_is_an_error() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let read = given(&args(), None, folder.path());
        assert!(read.is_err_and(|failure| failure.code == crate::exit::USAGE));
    }

    #[test]
    fn url_in_place_of_a_file_is_masked() {
        let text = |path: &str| {
            let args = StoreArgs { url_file: Some(path.into()), ..args() };
            let read = given(&args, None, Path::new("/nowhere"));
            read.expect_err("there is no file").to_string()
        };
        assert!(text("/no/such/file").starts_with("--url-file /no/such/file: "));
        assert!(text("etcd://root:geheim@h").starts_with("--url-file ***: "));
    }

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
            ("etcd://h:1,i:2/ns?session_ttl=1s", "etcd://h:1,i:2/ns?session_ttl=1s"),
            ("etcds://u:p%40q@h:1,i:2/ns?session_ttl=1s", "etcds://h:1,i:2/ns?session_ttl=1s"),
            ("zk://u:p@h?owner=a%40b", "zk://h?owner=a%40b"),
            ("zk://u:p@q@h", "zk://h"),
            ("redis://:p@h", "redis://h"),
            ("redis://u:@h", "redis://u:@h"),
            ("zk://u@h?password_file=/run/pw", "zk://u@h?password_file=/run/pw"),
            ("zk://h/ns?acl=digest:u:abc=:r&session_ttl=1s", "zk://h/ns?session_ttl=1s"),
            ("zk://h?acl=digest:u:abc=:r", "zk://h"),
            ("nonsense", ""),
        ] {
            assert_eq!(without_password(url), without);
        }
    }
}
