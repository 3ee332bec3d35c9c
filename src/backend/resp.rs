//! A connection to a server of Redis or Valkey, and the information that the server reports.

use std::{collections::HashMap, io, pin::Pin};

use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError,
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
            Err(refused(endpoint, &error))
        }
    }
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
