//! Finds the primary and counts its replicas through sentinels.

use std::collections::HashMap;

use redis::{Cmd, FromRedisValue, RedisConnectionInfo, cmd};

use super::{
    cluster::endpoint,
    connection::Connector,
    error::{refused, wants_password},
    server::CONNECTING,
};
use crate::backend::{Result, StoreError, resp};

impl Connector {
    /// Returns the primary that this sentinel names. The sentinel may be out of date, so the server
    /// has to confirm its own role.
    pub(super) async fn primary_of(&self, service: &str, sentinel: &str) -> Result<String> {
        let mut asking = cmd("SENTINEL");
        asking.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let address: Option<(String, u16)> = self.ask_sentinel(sentinel, &asking).await?;
        let (host, port) = address.ok_or_else(|| StoreError::Fatal {
            operation: CONNECTING,
            source: format!("the sentinel {sentinel} does not know the service {service}").into(),
        })?;
        Ok(endpoint(&host, port))
    }

    /// Returns the number of replicas that this sentinel knows, running or not.
    pub(super) async fn replicas_of(&self, service: &str, sentinel: &str) -> Result<u32> {
        let mut asking = cmd("SENTINEL");
        asking.arg("MASTER").arg(service);
        let fields: HashMap<String, String> = self.ask_sentinel(sentinel, &asking).await?;
        let replicas = fields.get("num-slaves").and_then(|number| number.parse().ok());
        let silent =
            || format!("the sentinel {sentinel} does not report how many replicas {service} has");
        replicas.ok_or_else(|| StoreError::Unavailable(silent().into()))
    }

    /// Queries a sentinel. It sends user and password only to a sentinel that requires them.
    async fn ask_sentinel<T: FromRedisValue>(&self, sentinel: &str, asking: &Cmd) -> Result<T> {
        let stranger = RedisConnectionInfo::default();
        let mut link = match self.begin(sentinel, stranger.clone()).await {
            Err(error) if wants_password(&error) => {
                self.begin(sentinel, resp::as_ourselves(&self.remote, stranger)).await?
            }
            link => link?,
        };
        link.query(asking).await.map_err(|error| refused(sentinel, &error))
    }
}
