//! A database of a test's own.

use distlock::{Client, Result};

use super::{SOON, cases::versions::Change, within};

/// The user of the URL may use it.
pub(crate) trait Database: Sized {
    async fn new() -> Self;

    fn url(&self) -> &str;

    async fn end(self);

    async fn connect(&self) -> Result<Client> {
        within(SOON, "it connects", Client::connect(self.url())).await
    }

    async fn client(&self) -> Client {
        self.connect().await.expect("connected")
    }
}

/// One that a server has, and an operator looks into.
pub(crate) trait Tables: Database {
    fn dialect(&self) -> &'static Dialect;

    /// The first column of what an operator's statements return.
    async fn ask(&self, sql: &str) -> Vec<String>;
}

/// What an operator says to a database.
pub(crate) struct Dialect {
    /// The version of the tables that this build makes.
    pub(crate) version: u32,
    /// What the tables' names begin with.
    pub(crate) prefix: &'static str,
    /// The tables that are empty once all clients are closed.
    pub(crate) empty: &'static [&'static str],
    /// The tables that have a row for each queue that is used.
    pub(crate) queues: &'static [&'static str],
    /// Lets all queues have been unused for two days.
    pub(crate) age: &'static str,
    /// The values that were written under locks.
    pub(crate) values: &'static str,
    /// A name that does harm if its quotes get out.
    pub(crate) name: &'static str,
    pub(crate) change: Change,
    /// Queues with the numbers from the one to the other have just been used.
    pub(crate) use_queues: fn(usize, usize) -> String,
    /// Begins session 7, which is never renewed and has a TTL of 2 s.
    pub(crate) dead: fn() -> String,
    /// More locks than a server removes within the time of a request.
    pub(crate) crowd: usize,
    /// Gives the session so many locks: the first half are alone in their queues.
    pub(crate) hold: fn(session: &str, locks: usize) -> String,
    /// What there is of the session and of its locks: a row for each.
    pub(crate) of_session: fn(session: &str) -> String,
}
