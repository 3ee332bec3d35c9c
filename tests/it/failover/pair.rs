//! A primary and a standby that follows it.

use std::time::Duration;

use distlock::Client;

use crate::common::{connect, own::Server};

pub(crate) struct Pair {
    pub(crate) primary: Server,
    pub(crate) standby: Server,
}

impl Pair {
    /// A client that knows both servers, whose session has this TTL.
    pub(crate) async fn client(&self, ttl: Duration) -> Client {
        connect(&self.primary.url_with(&[&self.standby]), ttl).await
    }
}

/// How a database replicates.
pub(crate) trait Replication {
    /// What a client says that a standby is.
    const STANDBY: &str;

    /// A server that may be a primary, and has no standby yet.
    async fn primary_alone() -> Server;

    /// A pair whose primary does not wait for the standby.
    async fn asynchronous() -> Pair;

    /// Lets the standby have all that its primary has, and no more from then on.
    async fn part(pair: &Pair);

    async fn promote(pair: &Pair);
}
