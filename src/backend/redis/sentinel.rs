//! Who keeps the locks, by the word of sentinels.

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
    /// By this sentinel's word. It may be an old one: who is there has to say itself what it is.
    pub(super) async fn primary_of(&self, service: &str, sentinel: &str) -> Result<String> {
        let mut asking = cmd("SENTINEL");
        asking.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let told: Option<(String, u16)> = self.ask_sentinel(sentinel, &asking).await?;
        let (host, port) = told.ok_or_else(|| StoreError::Fatal {
            operation: CONNECTING,
            source: format!("the sentinel {sentinel} knows of no service {service}").into(),
        })?;
        Ok(endpoint(&host, port))
    }

    /// How many replicas this sentinel knows of, also of those that are down.
    pub(super) async fn replicas_of(&self, service: &str, sentinel: &str) -> Result<u32> {
        let mut asking = cmd("SENTINEL");
        asking.arg("MASTER").arg(service);
        let told: HashMap<String, String> = self.ask_sentinel(sentinel, &asking).await?;
        let replicas = told.get("num-slaves").and_then(|number| number.parse().ok());
        let silent =
            || format!("the sentinel {sentinel} does not tell how many replicas there are");
        replicas.ok_or_else(|| StoreError::Unavailable(silent().into()))
    }

    /// User and password are told to one that asks for them alone.
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
