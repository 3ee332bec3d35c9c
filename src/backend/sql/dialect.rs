//! The differences between databases apart from the text of requests, such as how a session is
//! notified of changes.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{outcome::Outcome, statements::Statements};
use crate::backend::{
    Ask, Durability, Entry, Joined, Joiner, Listing, LossListener, Queue, Result, Ticket, Watch,
    Watched,
};

/// The name of reading a queue in errors.
pub(crate) const READ: &str = "reading a queue";
pub(crate) const WRITE: &str = "writing data";

pub(crate) const JOIN: &str = "joining a queue";

pub(crate) const LEAVE: &str = "leaving a queue";

pub(crate) const CLOSE: &str = "ending a session";

/// The message type of a dialect.
pub(crate) type MessageOf<D> = <<D as Dialect>::Statements as Statements>::Message;

/// A session's access to one kind of database.
#[async_trait]
pub(crate) trait Dialect: Debug + Send + Sync + 'static {
    type Statements: Statements;

    fn statements(&self) -> &Self::Statements;

    fn session(&self) -> i64;

    /// Runs one request within the client's time limit.
    async fn ask(&self, operation: &'static str, message: MessageOf<Self>) -> Result<Vec<Outcome>>;

    /// Returns the sessions whose remaining time a renewal also reads.
    fn awaited(&self) -> Vec<i64> {
        Vec::new()
    }

    /// Wakes this client's waiters after the session has changed an entry, or with the number 0 a
    /// queue. Stores that notify need not implement it.
    fn notify(&self, _dir: &str, _number: u64) {}

    /// Records which joiners have joined their queues. `None`: that is unknown.
    fn has_joined(&self, _joiners: &[Joiner<'_>], _joined: Option<&[Option<Joined>]>) {}

    /// Records that the user was given SQL with which a transaction may lock the entry at any time.
    fn gives_sql(&self, _entry: &Entry) {}

    /// Records that the server has confirmed that the joiner's entry is absent. `existed`: it was
    /// present before.
    fn has_left(&self, _joiner: Joiner<'_>, _existed: bool) {}

    /// Removes expired sessions, as far as the server's clock is trusted. `false`: each request to
    /// join does so itself.
    async fn sweep(&self) -> Result<bool> {
        Ok(false)
    }

    /// Runs periodic work after a renewal.
    fn renewed(&self) {}

    /// Records that the server has deleted this session's entry as requested, because a server that
    /// replaces it may not know. Redis needs no such record: a server that lacks the deletion also
    /// lacks the session's last write, and the session is lost.
    fn released(&self, _dir: &str, _ticket: Ticket) {}

    /// Registers a listener for the loss of a lock whose session lives on, where that can happen.
    fn on_loss(&self, _listener: LossListener) {}

    async fn durability(&self) -> Result<Durability>;

    /// Watches an entry. `None`: it is absent.
    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>>;

    /// Watches the entry ahead of an own one, or reads both, in one request. `None`: this takes two
    /// requests.
    async fn watch_ahead(&self, _ahead: &Entry, _own: &Entry) -> Result<Option<Watched>> {
        Ok(None)
    }

    /// Lists a queue, after a watch on it has begun if one is wanted.
    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing>;
}
