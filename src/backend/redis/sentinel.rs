//! Who keeps the locks, by the word of sentinels.

use std::collections::HashMap;

use redis::{RedisConnectionInfo, RedisResult, aio::MultiplexedConnection, cmd};

use super::{
    cluster::endpoint,
    connection::{Connector, Link},
    error::{refused, wants_password},
    server::CONNECTING,
};
use crate::backend::error::{Result, StoreError};

impl Connector {
    /// By this sentinel's word. It may be an old one: who is there has to say itself what it is.
    pub(super) async fn primary_of(&self, service: &str, sentinel: &str) -> Result<String> {
        let (mut link, connection) = self.sentinel(sentinel).await?;
        let mut asking = cmd("SENTINEL");
        asking.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let told: Option<(String, u16)> = ask(&mut link, &connection, &asking)
            .await
            .map_err(|error| refused(sentinel, &error))?;
        let (host, port) = told.ok_or_else(|| StoreError::Fatal {
            operation: CONNECTING,
            source: format!("the sentinel {sentinel} knows of no service {service}").into(),
        })?;
        Ok(endpoint(&host, port))
    }

    /// How many replicas this sentinel knows of, also of those that are down.
    pub(super) async fn replicas_of(&self, service: &str, sentinel: &str) -> Result<u32> {
        let (mut link, connection) = self.sentinel(sentinel).await?;
        let mut asking = cmd("SENTINEL");
        asking.arg("MASTER").arg(service);
        let told: HashMap<String, String> = ask(&mut link, &connection, &asking)
            .await
            .map_err(|error| refused(sentinel, &error))?;
        let replicas = told.get("num-slaves").and_then(|number| number.parse().ok());
        let silent =
            || format!("the sentinel {sentinel} does not tell how many replicas there are");
        replicas.ok_or_else(|| StoreError::Unavailable(silent().into()))
    }

    /// User and password are told to one that asks for them alone.
    async fn sentinel(&self, sentinel: &str) -> Result<(Link, MultiplexedConnection)> {
        let stranger = RedisConnectionInfo::default();
        let link = match self.begin(sentinel, stranger.clone()).await {
            Err(error) if wants_password(&error) => {
                self.begin(sentinel, self.as_ourselves(stranger)).await?
            }
            link => link?,
        };
        let connection = link.connection.clone();
        Ok((link, connection))
    }
}

async fn ask<T: redis::FromRedisValue>(
    link: &mut Link,
    connection: &MultiplexedConnection,
    command: &redis::Cmd,
) -> RedisResult<T> {
    let mut connection = connection.clone();
    link.driven(command.query_async(&mut connection)).await
}
