//! A primary and a standby that follows it, which may lag behind.

use std::time::Duration;

use distlock::Client;

use crate::common::{connect, own::Server};

/// A primary and a standby.
pub(crate) trait Pair: Sized {
    /// What a client says of a standby that it refuses.
    const STANDBY: &str;

    /// The primary alone, with tables.
    async fn primary_alone() -> Server;

    /// What the primary confirms comes to the standby soon.
    async fn asynchronous() -> Self;

    fn primary(&self) -> &Server;

    fn standby(&self) -> &Server;

    /// Waits until the standby has all that the primary has, from which on it does not hear of what
    /// that confirms.
    async fn part(&self);

    async fn promote(&self);

    /// A client that has to find out which one is the primary.
    async fn client(&self, ttl: Duration) -> Client {
        connect(&self.primary().url_with(&[self.standby()]), ttl).await
    }
}
