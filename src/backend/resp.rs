//! A connection to a server of Redis or Valkey, and the information that the server reports.

use std::{collections::HashMap, io, pin::Pin};

use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, RedisConnectionInfo, RedisError,
    aio::MultiplexedConnection,
};

use super::{
    Result, StoreError, certificates,
    remote::Remote,
    securing::{Securing, Stream},
    tls::Material,
};
use crate::runtime::tcp::tcp;

/// The future that drives a connection. It must be polled for as long as the connection is used.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Connects to a server and authenticates.
pub(crate) async fn begin(
    remote: &Remote,
    endpoint: &str,
    info: RedisConnectionInfo,
    config: AsyncConnectionConfig,
    refused: fn(&str, &RedisError) -> StoreError,
) -> Result<(MultiplexedConnection, Driver)> {
    let stream = dial(endpoint, remote.material().as_deref()).await?;
    let info = info.set_protocol(ProtocolVersion::RESP3);
    let info = info.set_lib_name("distlock", env!("CARGO_PKG_VERSION"));
    // distlock has its own time limits, and the client crate repeats nothing.
    let config = config.set_connection_timeout(None).set_response_timeout(None);
    match MultiplexedConnection::new_with_config(&info, stream, config).await {
        Ok((connection, driver)) => Ok((connection, Box::pin(driver))),
        Err(error) => {
            remote.expire_credentials();
            Err(without_hello(endpoint, &error).unwrap_or_else(|| refused(endpoint, &error)))
        }
    }
}

/// Returns the error for a server that rejects `HELLO 3`, the first command on each connection.
///
/// The text of the server's error may contain the password, which is an argument of that command.
fn without_hello(endpoint: &str, error: &RedisError) -> Option<StoreError> {
    // A proxy's error may begin with another word than `ERR`.
    let [code, detail] = [error.code(), error.detail()].map(Option::unwrap_or_default);
    let text = format!("{code} {detail}").to_lowercase();
    let unknown = ["unknown command", "unsupported command"];
    let is_unknown = unknown.iter().any(|words| text.contains(words)) && text.contains("hello");
    let is_rejected = is_unknown
        || code == "NOPROTO"
        // The client crate reports this for the reply of Redis 4 to 6.
        || error.kind() == ErrorKind::RESP3NotSupported;
    is_rejected.then(|| StoreError::Fatal {
        operation: "connecting",
        source: format!(
            "{endpoint} does not support HELLO 3 (RESP3): use Redis 7 or later, or Valkey 7.2 or \
             later; if its version is new enough, enable this command, or connect without a proxy"
        )
        .into(),
    })
}

/// Returns `true` if the server denies access to this user.
pub(crate) fn is_denied(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOPERM" | "WRONGPASS" | "NOAUTH"))
        || is_denied_in_script(error.detail().unwrap_or_default())
}

/// Returns `true` for the error of a script whose user lacks a right to a command, a key or a
/// channel that the script uses. The error's code is not `NOPERM`: see `scriptVerifyACL` in
/// <https://github.com/redis/redis/blob/8.0/src/script.c>. The second text is that of Redis 7.0.
pub(crate) fn is_denied_in_script(text: &str) -> bool {
    text.contains("ACL failure in script: ") || text.contains("The user executing the script ")
}

/// Adds the user and the password, if there are any.
pub(crate) fn as_ourselves(remote: &Remote, info: RedisConnectionInfo) -> RedisConnectionInfo {
    let Some(credentials) = &remote.credentials else { return info };
    let newest = credentials.newest();
    info.set_username(&newest.user).set_password(newest.password.expose())
}

/// The fields of a server's `INFO`.
#[derive(Debug, Default)]
pub(crate) struct Info(pub(crate) HashMap<String, String>);

impl Info {
    pub(crate) fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns what the server is or does not report, if it is not supported.
    pub(crate) fn unsupported(&self) -> Option<String> {
        // It reports a version of Redis, too, and does not run these scripts: it rejects their
        // first line (https://github.com/dragonflydb/dragonfly/pull/3517).
        if let Some(version) = self.0.get("dragonfly_version") {
            return Some(format!("is Dragonfly {version}"));
        }
        let (name, version) = match (self.field("valkey_version"), self.field("redis_version")) {
            ("", "") => return Some("does not report redis_version (INFO)".to_owned()),
            ("", version) => ("Redis", version),
            (version, _) => ("Valkey", version),
        };
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_none_or(|major| major < 7).then(|| format!("is {name} {version}"))
    }
}

/// By TLS, if there is any.
async fn dial(endpoint: &str, material: Option<&Material>) -> Result<Box<dyn Stream>> {
    connect(endpoint, material).await.map_err(|error| match certificates::explain(&error) {
        Some(fault) => StoreError::Denied(format!("{endpoint}: {fault}").into()),
        None => StoreError::Unavailable(format!("{endpoint}: {error}").into()),
    })
}

async fn connect(endpoint: &str, material: Option<&Material>) -> io::Result<Box<dyn Stream>> {
    let secure = |material| Securing::new(material, endpoint);
    let securing = material.map(secure).transpose()?;
    let tcp = tcp(endpoint).await?;
    Ok(match securing {
        None => Box::new(tcp),
        Some(securing) => securing.secure(tcp).await?,
    })
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    /// Returns the client crate's error for a server's error.
    fn replied(text: &str) -> RedisError {
        let reply = parse_redis_value(format!("-{text}\r\n").as_bytes());
        reply.and_then(Value::extract_error).unwrap_err()
    }

    #[test]
    fn servers_and_proxies_without_hello_are_refused_for_good() {
        let crates_own: RedisError = (ErrorKind::RESP3NotSupported, "no RESP3").into();
        let rejections = [
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `app`, `s3cret`, ",
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'app' 's3cret' ",
            "unsupported command 'HELLO'",
            "ERR unsupported command `hello`",
            "NOPROTO unsupported protocol version",
        ];
        for error in rejections.map(replied).into_iter().chain([crates_own]) {
            let refusal = without_hello("h:1", &error).unwrap();
            assert!(matches!(refusal, StoreError::Fatal { .. }), "{error}: {refusal:?}");
            let reason = refusal.reason();
            assert!(reason.starts_with("h:1 does not support HELLO 3"), "{reason}");
            assert!(!reason.contains("s3cret"), "{reason}");
        }
        for other in [
            "NOAUTH HELLO must be called with the client already authenticated",
            "NOPERM User unknown has no permissions to run the 'hello' command",
            "ERR unknown command 'INFO', with args beginning with: ",
            "ERR max number of clients reached",
        ] {
            assert!(without_hello("h:1", &replied(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn denials_within_scripts_are_recognized() {
        for denied in [
            "NOPERM User app has no permissions to run the 'evalsha' command",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "ERR ACL failure in script: User app has no permissions to run the 'zadd' command \
             script: ab12, on @user_script:7.",
            "ERR ACL failure in script: No permissions to access a key script: ab12, on \
             @user_script:7.",
            // Redis 7.0.
            "ERR The user executing the script can't run this command or subcommand script: ab12, \
             on @user_script:7.",
        ] {
            assert!(is_denied(&replied(denied)), "{denied}");
        }
        for other in [
            "ERR user_script:7: attempt to index a nil value script: ab12, on @user_script:7.",
            "ERR Script killed by user with SCRIPT KILL. script: ab12, on @user_script:7.",
            "LOADING Redis is loading the dataset in memory",
        ] {
            assert!(!is_denied(&replied(other)), "{other}");
        }
    }
}
