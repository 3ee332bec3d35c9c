//! Opens a session, and waits until its start is stored durably.

use std::{sync::atomic::Ordering, time::Duration};

use redis::{RedisResult, cmd};

use super::{
    batch::{most_of, wait},
    connection::{Connector, Link, Use},
    error::unkept,
    message,
};
use crate::{
    backend::{Result, StoreError, opening::within},
    runtime::{clock, random},
};

const OPENING: &str = "opening a session";

/// A new session, and its connections.
pub(super) struct Opened {
    pub(super) session: i64,
    pub(super) requests: Link,
    pub(super) beats: Link,
    pub(super) acks: Option<Link>,
}

impl Connector {
    /// Opens a session. If replicas do not confirm it, they may follow another primary by now, so
    /// the other servers of the URL are tried while time is left.
    pub(super) async fn open(&self, ttl: Duration) -> Result<Opened> {
        let (began, patience) = (clock::now(), self.remote.opening_timeout());
        let mut opened = self.connect_new().await?;
        let begin = self.start(&mut opened.beats, opened.session, ttl);
        let mut begun = within(patience, begin).await.unwrap_or_else(Err);
        for _ in 1..self.remote.endpoints.len() {
            if !matches!(begun, Err(StoreError::Unavailable(_))) {
                break;
            }
            self.endpoints.leave();
            let left = patience.saturating_sub(clock::now().saturating_sub(began));
            let again = async {
                let mut opened = self.connect_new().await?;
                let begun = self.start(&mut opened.beats, opened.session, ttl).await;
                begun.map(|()| opened)
            };
            // The first error is reported: the host of a missing replica may not even reply.
            if let Ok(Ok(next)) = within(left, again).await {
                (opened, begun) = (next, Ok(()));
            }
        }
        begun.map(|()| opened)
    }

    /// Connects a new session. The client chooses its id. If the reply to its start is lost, that
    /// session ends with its TTL.
    async fn connect_new(&self) -> Result<Opened> {
        let (session, patience) = (random::id(), self.remote.opening_timeout());
        let requests = self.connect(session, Use::Requests, patience).await?;
        let beats = self.connect(session, Use::Beats, patience).await?;
        let acks = match self.acks() {
            Some(_) => Some(self.connect(session, Use::Acks, patience).await?),
            None => None,
        };
        Ok(Opened { session, requests, beats, acks })
    }

    /// Begins a session on the connection that renews it. The session counts once the required
    /// replicas and the disk have it.
    async fn start(&self, link: &mut Link, session: i64, ttl: Duration) -> Result<()> {
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
