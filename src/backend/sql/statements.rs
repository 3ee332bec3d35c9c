//! What a session asks of one kind of database, in its words.

use std::fmt::Debug;

use super::{key::Place, outcome::Outcome};
use crate::backend::{Joiner, Result, Write};

/// The requests of one session. What the answer to each has to hold is read in `store.rs` and
/// `extras.rs`; columns are numbered as in `key.rs` and `told.rs`.
pub(crate) trait Statements: Debug + Send + Sync + 'static {
    /// A request: some statements, sent together.
    type Message: Send;

    /// Renews the session; its last statement counts the sessions renewed. It may ask after
    /// `others` on the way, which somebody waits for here.
    fn keep_alive(&self, others: &[i64]) -> Self::Message;

    /// Ends the session, and all of its entries by that: so many at a time.
    fn close(&self) -> Self::Message;

    /// Returns `true` if no entry is left. Fails if other transactions have locked the rest.
    fn is_closed(outcomes: &[Outcome]) -> Result<bool>;

    /// Joins all of these queues or none; the last statements tell of one each. `if_free`: only if
    /// nobody is in any of them, and a statement more tells whether somebody there seems dead.
    fn join(&self, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Self::Message;

    /// An entry and the two ahead of it, the nearest first.
    fn standing(&self, own: &Place<'_>) -> Self::Message;

    /// What there is of these two.
    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Self::Message;

    /// The session's entries, and the queue of each.
    fn own_entries(&self) -> Self::Message;

    /// Its last statements tell how many entries were deleted; and the queue's last number, which
    /// no entry has that joined after the deletion, and whether the successor's is there.
    fn leave(&self, of: Joiner<'_>, number: Option<u64>, successor: Option<u64>) -> Self::Message;

    /// Its last statements tell how many entries were written, and which version there is.
    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Self::Message;

    /// The entry keeps its number. Its last statement counts the entries written.
    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Self::Message;

    /// Its second statement counts the guards that are held; without any it counts one.
    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Self::Message;

    fn read(&self, key: &str) -> Self::Message;

    /// The queues whose directories begin with the namespace and a slash.
    fn queues(&self, namespace: &str) -> Self::Message;
}
