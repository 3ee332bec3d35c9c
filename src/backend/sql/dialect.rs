//! What databases differ in beside the words of requests: how a session hears of changes.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{outcome::Outcome, statements::Statements};
use crate::backend::{
    Ask, Durability, Entry, Joined, Joiner, Listing, LossListener, Queue, Result, Ticket, Watch,
    Watched,
};

/// What reading a queue is called in errors.
pub(crate) const READ: &str = "read of a queue";
pub(crate) const WRITE: &str = "write";

pub(crate) const JOIN: &str = "joining a queue";

pub(crate) const LEAVE: &str = "leaving a queue";

pub(crate) const CLOSE: &str = "ending a session";

/// What a dialect asks.
pub(crate) type MessageOf<D> = <<D as Dialect>::Statements as Statements>::Message;

/// A session's way to one kind of database.
#[async_trait]
pub(crate) trait Dialect: Debug + Send + Sync + 'static {
    type Statements: Statements;

    fn statements(&self) -> &Self::Statements;

    fn session(&self) -> i64;

    /// Asks for one request to be done, within the client's patience.
    async fn ask(&self, operation: &'static str, message: MessageOf<Self>) -> Result<Vec<Outcome>>;

    /// The sessions that a renewal asks after on the way.
    fn awaited(&self) -> Vec<i64> {
        Vec::new()
    }

    /// This session has done something to an entry, or with the number 0 in a queue: those of this
    /// client who wait for it need not look. Nothing to do where the server tells them.
    fn notify(&self, _dir: &str, _number: u64) {}

    /// Each of these joiners has joined its queue, or has not. `None`: that is not known.
    fn has_joined(&self, _joiners: &[Joiner<'_>], _joined: Option<&[Option<Joined>]>) {}

    /// The user is given SQL, by which a transaction may lock the entry at any time.
    fn gives_sql(&self, _entry: &Entry) {}

    /// The server has confirmed that the joiner's entry is not there. `existed`: it was.
    fn has_left(&self, _joiner: Joiner<'_>, _existed: bool) {}

    /// Removes the sessions that are over, as far as the server's clock is believed. `false`: each
    /// request to join does.
    async fn sweep(&self) -> Result<bool> {
        Ok(false)
    }

    /// The session was renewed: a time to do what is done now and then.
    fn renewed(&self) {}

    /// This session's entry was deleted, as it wished: another server than this one may not know.
    /// Nothing to do on Redis: a server that does not know of it does not know the session's last
    /// write either, with which the session is lost.
    fn released(&self, _dir: &str, _ticket: Ticket) {}

    /// Whom to tell of a lock that is lost while the session lives on, where that can be.
    fn on_loss(&self, _listener: LossListener) {}

    async fn durability(&self) -> Result<Durability>;

    /// A watch on an entry; `None` if it is not there.
    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>>;

    /// A watch on the entry ahead of an own one, or what there is of both, in one request. `None`:
    /// that takes two.
    async fn watch_ahead(&self, _ahead: &Entry, _own: &Entry) -> Result<Option<Watched>> {
        Ok(None)
    }

    /// All that is in a queue, with a watch on it that begins before, if it is wanted.
    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing>;
}
