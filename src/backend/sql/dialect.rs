//! What databases differ in: the words of requests, and how a session hears of changes.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{key::Place, outcome::Outcome};
use crate::backend::{
    Ask, Entry, Listing, ToldOfLoss, Watch, Write,
    durability::Durability,
    error::Result,
    name::{Queue, Ticket},
};

/// What reading a queue is called in errors.
pub(crate) const READ: &str = "read of a queue";

/// One who joins.
pub(crate) struct Joiner<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) ticket: Ticket,
}

/// A session's way to one kind of database. What a request's answer has to hold is read in
/// `store.rs` and `extras.rs`; columns are numbered as in `key.rs` and `told.rs`.
#[async_trait]
pub(crate) trait Dialect: Debug + Send + Sync + 'static {
    /// A request: some statements, sent together.
    type Message: Send;

    fn session(&self) -> i64;

    /// Asks for one request to be done, within the client's patience.
    async fn ask(&self, operation: &'static str, message: Self::Message) -> Result<Vec<Outcome>>;

    /// This session has done something to an entry, or with the number 0 in a queue: those of this
    /// client who wait for it need not look. Nothing to do where the server tells them.
    fn tell(&self, _dir: &str, _number: u64) {}

    /// This session's entry was deleted, as it wished: another server than this one may not know.
    fn released(&self, ticket: Ticket);

    /// Whom to tell of a lock that is lost while the session lives on, where that can be.
    fn on_loss(&self, _told: ToldOfLoss) {}

    /// Renews the session; its last statement counts the sessions renewed.
    fn keep_alive(&self) -> Self::Message;

    /// Ends the session, and all of its entries by that.
    fn close(&self) -> Self::Message;

    /// Joins all of these queues or none; the last statements tell of one each. `if_free`: only if
    /// nobody is in any of them, and a statement more tells whether somebody there seems dead.
    /// `turn` is another number each time.
    fn join(&self, turn: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool)
    -> Self::Message;

    /// An entry and the two ahead of it, the nearest first.
    fn standing(&self, own: &Place<'_>) -> Self::Message;

    /// What there is of these two.
    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Self::Message;

    /// The session's entries, and the queue of each.
    fn own_entries(&self) -> Self::Message;

    /// Its last statements tell how many entries were deleted; and the queue's last number, and
    /// whether the successor's is there.
    fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        number: Option<u64>,
        successor: Option<u64>,
    ) -> Self::Message;

    /// Its last statements tell how many entries were written, and which version there is.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Self::Message;

    /// Its last statement counts the entries written.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Self::Message;

    /// Its second statement counts the guards that are held; without any it counts one.
    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Self::Message;

    fn read(&self, key: &str) -> Self::Message;

    fn queues(&self, namespace: &str) -> Self::Message;

    async fn durability(&self) -> Result<Durability>;

    /// A watch on an entry; `None` if it is not there.
    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>>;

    /// All that is in a queue, with a watch on it that begins before, if it is wanted.
    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing>;
}
