//! How a session begins, and what has to be elsewhere before something counts.

use std::{sync::atomic::Ordering, time::Duration};

use redis::{RedisResult, aio::MultiplexedConnection, cmd};

use super::{
    connection::{Connector, Link, most_of, wait},
    error::words,
    message,
};
use crate::{
    backend::error::{Result, StoreError},
    runtime::clock,
};

const OPENING: &str = "opening a session";

impl Connector {
    /// Begins a session, by the connection that keeps it alive. It counts once all have it who have
    /// to.
    pub(super) async fn open(&self, link: &mut Link, session: i64, ttl: Duration) -> Result<()> {
        let (began, patience) = (clock::now(), self.patience_at_first());
        let left = || patience.saturating_sub(clock::now().saturating_sub(began));
        self.clock.watch_within(ttl / 2);
        let open =
            message::open(message::micros(ttl), &link.server, self.newest.load(Ordering::Acquire));
        let begun = self.call(link, session, &open).await?;
        self.clock.read(&link.server.name, &begun.clock, began);
        let outcomes = begun.outcomes(OPENING)?;
        let unavailable = |told: String| StoreError::Unavailable(told.into());
        let (endpoint, connection) = (link.endpoint.clone(), link.connection.clone());
        if let Some(acks) = self.acks() {
            let (wait, mut connection) = (wait(acks, left()), connection.clone());
            let have = link.driven(wait.query_async(&mut connection)).await;
            let have: u32 = have.map_err(|error| unavailable(words(&endpoint, &error)))?;
            if have < acks {
                let told = format!("{have} of {acks} replicas of {endpoint} have the session");
                return Err(unavailable(told));
            }
        }
        // Should all of it be lost but that, nothing is granted for as long as it was to live.
        if link.writes_soon && outcomes.last().is_some_and(|told| told.count > 0) {
            let kept = link.driven(on_disk(connection, left())).await;
            if !kept.map_err(|error| unavailable(words(&endpoint, &error)))? {
                let told = format!("{endpoint} does not bring a session to its disk");
                return Err(unavailable(told));
            }
            self.call(link, session, &message::kept()).await?.outcomes(OPENING)?;
        }
        Ok(())
    }
}

/// Whether what this connection has written is on the server's disk, before most of this time is
/// over.
async fn on_disk(mut connection: MultiplexedConnection, patience: Duration) -> RedisResult<bool> {
    let time = most_of(patience);
    let asked = cmd("WAITAOF").arg(1).arg(0).arg(time).query_async(&mut connection).await;
    asked.map(|(local, _): (u64, u64)| local > 0)
}
