//! Opens a session, and waits until its start is stored durably.

use std::{sync::atomic::Ordering, time::Duration};

use redis::{RedisResult, cmd};

use super::{
    batch::{most_of, wait},
    connection::{Connector, Link},
    error::unkept,
    message,
};
use crate::{
    backend::{Result, StoreError},
    runtime::clock,
};

const OPENING: &str = "opening a session";

impl Connector {
    /// Opens a session on the connection that renews it. The session counts once the required
    /// replicas and the disk have it.
    pub(super) async fn open(&self, link: &mut Link, session: i64, ttl: Duration) -> Result<()> {
        let (began, patience) = (clock::now(), self.remote.opening_timeout());
        let left = || patience.saturating_sub(clock::now().saturating_sub(began));
        self.clock.watch_within(ttl / 2);
        let former = self.take_over(link).await?;
        let newest = self.newest.load(Ordering::Acquire);
        let open = message::open(message::micros(ttl), &link.server, newest, former);
        let sent = clock::now();
        let begun = self.call(link, session, &open).await?;
        self.clock.read(&link.server.name, &begun.clock, sent);
        let outcomes = begun.outcomes(OPENING)?;
        // The namespace is of version 2, and has adopted everything that it continues from.
        self.took_over.store(true, Ordering::Release);
        self.newest.fetch_max(former.newest, Ordering::AcqRel);
        let unavailable = |reason: String| StoreError::Unavailable(reason.into());
        let endpoint = link.endpoint.clone();
        if let Some(acks) = self.acks() {
            // This leaves time for the other servers, one of which may have replaced this one.
            let servers = u32::try_from(self.remote.endpoints.len()).unwrap_or(u32::MAX);
            let share = left().min(patience / servers.max(1));
            let have = link.query(&wait(acks, share)).await;
            let have: u32 = have.map_err(|error| unkept(&endpoint, &error))?;
            if have < acks {
                let reason =
                    format!("{endpoint}: {have} of {acks} required replicas confirmed the session");
                return Err(unavailable(reason));
            }
        }
        // If the server later loses everything except this record, it grants no lock for the TTL.
        if link.writes_soon && outcomes.last().is_some_and(|outcome| outcome.count > 0) {
            // Asks whether the disk has this connection's writes, before most of the time has
            // passed.
            let mut asking = cmd("WAITAOF");
            asking.arg(1).arg(0).arg(most_of(left()));
            let kept: RedisResult<(u64, u64)> = link.query(&asking).await;
            let (local, _) = kept.map_err(|error| unkept(&endpoint, &error))?;
            if local == 0 {
                let reason =
                    format!("{endpoint} did not flush the new session to its disk in time");
                return Err(unavailable(reason));
            }
            self.call(link, session, &message::kept()).await?.outcomes(OPENING)?;
        }
        Ok(())
    }
}
