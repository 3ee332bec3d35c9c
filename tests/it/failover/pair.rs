//! A primary and a standby that follows it.

use std::time::Duration;

use distlock::Client;

use crate::common::{connect, own::Server};

pub(crate) struct Pair {
    pub(crate) primary: Server,
    pub(crate) standby: Server,
}

impl Pair {
    /// Returns a client that knows both servers, with this TTL.
    pub(crate) async fn client(&self, ttl: Duration) -> Client {
        connect(&self.primary.url_with(&[&self.standby]), ttl).await
    }
}

/// The replication of a database.
pub(crate) trait Replication {
    /// The client's words for a standby.
    const STANDBY: &str;

    /// Starts a server that can become a primary, without a standby yet.
    async fn primary_alone() -> Server;

    /// Starts a pair whose primary does not wait for the standby.
    async fn asynchronous() -> Pair;

    /// Lets the standby catch up with its primary, and disconnects it.
    async fn part(pair: &Pair);

    async fn promote(pair: &Pair);
}
