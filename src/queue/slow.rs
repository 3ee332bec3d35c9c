//! Tells those who read the log whom a waiter waits for, when that takes long.

use super::waiter::Waiter;
use crate::{
    backend::{Ask, signature},
    runtime::clock,
};

/// How many may stand in a queue whose keys are read: that is a request for each on ZooKeeper. Of
/// a longer one the names have to do.
const FEW: usize = 16;

impl Waiter<'_> {
    /// Tells who holds the lock, and how many are ahead: for one that has waited for as long as
    /// goes by between two looks, and only if somebody wants to know. If the store does not answer
    /// there is nothing to tell.
    pub(super) async fn tell_slow(&self) {
        let slow_waits = &self.session.slow_waits;
        if !slow_waits.may_look() {
            return;
        }
        let store = self.session.store();
        let Ok(mut listing) = store.list(self.queue, Ask::default()).await else { return };
        if listing.members.len() <= FEW {
            let ask = Ask { values: true, ..Ask::default() };
            let Ok(read) = store.list(self.queue, ask).await else { return };
            listing = read;
        }
        let own = &self.own.entry.key;
        let place = listing.members.iter().position(|member| member.entry.key == *own);
        let Some(first) = listing.members.into_iter().next() else { return };
        let holder = match first.detail {
            Some(detail) => signature::read(&detail.value).0,
            None => first.entry.key.to_string(),
        };
        let waited = clock::now().saturating_sub(self.own.sent);
        slow_waits.slow(self.queue.name(), waited, place, &holder, first.entry.token);
    }
}
