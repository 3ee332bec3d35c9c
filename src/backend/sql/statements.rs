//! The requests of a session, in the words of one kind of database.

use std::fmt::Debug;

use super::{key::Place, outcome::Outcome};
use crate::backend::{Joiner, Result, Write};

/// The requests of one session. `store.rs` and `extras.rs` read the replies, with the columns of
/// `key.rs` and `replies.rs`.
pub(crate) trait Statements: Debug + Send + Sync + 'static {
    /// A request: some statements that are sent together.
    type Message: Send;

    /// Renews the session. The last statement counts the renewed sessions. The request may also
    /// read the remaining time of `others`, for which this client's waiters wait.
    fn keep_alive(&self, others: &[i64]) -> Self::Message;

    /// Ends the session and removes a batch of its entries.
    fn close(&self) -> Self::Message;

    /// Returns `true` if no entry is left. Fails if other transactions have locked the rest.
    fn is_closed(outcomes: &[Outcome]) -> Result<bool>;

    /// Joins all of these queues or none. The last statements return one joiner each. With
    /// `if_free`, it joins only if all queues are empty. An additional statement then returns the
    /// row that `replies::why_not_yet` reads.
    fn join(&self, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Self::Message;

    /// Reads an entry and the two ahead of it, nearest first.
    fn standing(&self, own: &Place<'_>) -> Self::Message;

    /// Reads which of these two entries are present.
    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Self::Message;

    /// Reads the session's entries and their queues.
    fn own_entries(&self) -> Self::Message;

    /// Deletes an entry. The last statements return the number of deleted entries, the queue's last
    /// number, and whether the successor's entry is present. Each entry that joins after the
    /// deletion has a higher number than that.
    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Self::Message;

    /// Rewrites an entry. The last statements count the entries written, and return the version.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Self::Message;

    /// Relabels an entry, which keeps its number. The last statement counts the entries written.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Self::Message;

    /// Writes data if the guards are held. The second statement counts the held guards, or returns
    /// 1 without guards.
    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Self::Message;

    fn read(&self, key: &str) -> Self::Message;

    /// Lists the queues whose directories begin with the namespace and a slash.
    fn queues(&self, namespace: &str) -> Self::Message;
}
