//! A test's own database.

use distlock::{Client, Result};

use super::{SOON, cases::versions::Change, within};

/// A database of a test's own that the user of the URL may use.
pub(crate) trait Database: Sized {
    async fn new() -> Self;

    fn url(&self) -> &str;

    async fn end(self);

    async fn connect(&self) -> Result<Client> {
        within(SOON, "the client connects", Client::connect(self.url())).await
    }

    async fn client(&self) -> Client {
        self.connect().await.expect("connected")
    }
}

/// A database whose tables an operator can inspect.
pub(crate) trait Tables: Database {
    fn dialect(&self) -> &'static Dialect;

    /// Runs an operator's statements, and returns the first column of their results.
    async fn ask(&self, sql: &str) -> Vec<String>;
}

/// An operator's statements in one SQL dialect.
pub(crate) struct Dialect {
    /// The version of the tables that this build creates.
    pub(crate) version: u32,
    /// The prefix of the tables' names.
    pub(crate) prefix: &'static str,
    /// The tables that are empty once all clients are closed.
    pub(crate) empty: &'static [&'static str],
    /// The tables with a row for each queue in use.
    pub(crate) queues: &'static [&'static str],
    /// Makes all queues appear unused for two days.
    pub(crate) age: &'static str,
    /// Selects the values that were written under locks.
    pub(crate) values: &'static str,
    /// A name that does harm if it is not quoted correctly.
    pub(crate) name: &'static str,
    pub(crate) change: Change,
    /// Makes the queues with numbers in this range appear just used.
    pub(crate) use_queues: fn(usize, usize) -> String,
    /// Begins session 7, which is never renewed and has a TTL of 2 s.
    pub(crate) dead: fn() -> String,
    /// A number of locks that no server removes within one request timeout.
    pub(crate) crowd: usize,
    /// Adds this many locks to the session. The first half are alone in their queues.
    pub(crate) hold: fn(session: &str, locks: usize) -> String,
    /// Selects a row for the session, and one for each of its locks.
    pub(crate) of_session: fn(session: &str) -> String,
}
