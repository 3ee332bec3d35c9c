//! The reentrant holds of a client.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use tokio::sync::watch;

use crate::{
    primitives::guard::LockGuard,
    runtime::{mutex::Mutex, process::Process},
};

/// The reentrant holds of a client.
pub(crate) struct Holders {
    /// The process that has the holds.
    process: Process,
    /// By the lock's name and the reentrancy id. In a forked child, the lock may be held forever by
    /// a thread that only the parent has.
    slots: Mutex<HashMap<Key, Weak<Slot>>>,
}

impl Default for Holders {
    fn default() -> Self {
        Self { process: Process::current(), slots: Mutex::default() }
    }
}

type Key = (Box<str>, Box<str>);

/// The hold of one lock by one reentrancy id.
pub(super) struct Slot {
    holders: Arc<Holders>,
    key: Key,
    hold: watch::Sender<Weak<LockGuard>>,
}

impl Holders {
    /// Returns the hold of this lock and id. A forked child must not call this method.
    pub(super) fn slot(self: &Arc<Self>, name: &str, holder: &str) -> Arc<Slot> {
        let key: Key = (name.into(), holder.into());
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&key).and_then(Weak::upgrade) {
            return slot;
        }
        let hold = watch::Sender::new(Weak::new());
        let slot = Arc::new(Slot { holders: Arc::clone(self), key: key.clone(), hold });
        slots.insert(key, Arc::downgrade(&slot));
        slot
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.holders.process.is_current() {
            return;
        }
        let mut slots = self.holders.slots.lock();
        // A new slot may have taken its place.
        if slots.get(&self.key).is_some_and(|slot| slot.strong_count() == 0) {
            slots.remove(&self.key);
        }
    }
}

impl Slot {
    /// Makes the hold available to all calls with this id.
    pub(super) fn set(&self, guard: &Arc<LockGuard>) {
        self.hold.send_replace(Arc::downgrade(guard));
    }

    /// Returns the guard if it is still valid.
    fn held(&self) -> Option<Arc<LockGuard>> {
        // The borrow ends first: reading the clock and dropping the last guard may both wake other
        // tasks.
        let guard = self.hold.borrow().upgrade();
        guard.filter(|guard| guard.is_valid())
    }

    /// Returns the guard once the lock is held.
    pub(super) async fn is_held(&self) -> Arc<LockGuard> {
        let mut hold = self.hold.subscribe();
        loop {
            if let Some(guard) = self.held() {
                return guard;
            }
            if hold.changed().await.is_err() {
                // The sender is a field of `self`, so it outlives this borrow.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holders").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{process, time::Duration};

    use distlock_fork::{Fork, ends_within};

    use super::*;

    #[test]
    fn slot_is_removed_with_its_last_user() {
        let holders = Arc::<Holders>::default();
        let known = || holders.slots.lock().len();
        let (one, same) = (holders.slot("a", "me"), holders.slot("a", "me"));
        assert!(Arc::ptr_eq(&one, &same));
        let others = [holders.slot("a", "you"), holders.slot("b", "me")];
        assert_eq!(known(), 3);
        drop(one);
        assert_eq!(known(), 3);
        // A new slot takes its place before it is dropped.
        let (holders_of, key) = (Arc::clone(&holders), same.key.clone());
        let hold = watch::Sender::new(Weak::new());
        let next = Arc::new(Slot { holders: holders_of, key: key.clone(), hold });
        holders.slots.lock().insert(key, Arc::downgrade(&next));
        drop(same);
        assert!(Arc::ptr_eq(&holders.slot("a", "me"), &next));
        drop((next, others));
        assert_eq!(known(), 0);
    }

    /// A thread of the parent may hold the lock at the fork.
    #[test]
    fn forked_child_does_not_wait_for_its_parents_slots() {
        let holders = Arc::<Holders>::default();
        let slot = holders.slot("a", "me");
        let held = holders.slots.lock();
        let child = match distlock_fork::split().unwrap() {
            Fork::Child => {
                drop(slot);
                process::exit(0);
            }
            Fork::Parent(child) => child,
        };
        drop(held);
        let ended = ends_within(child, Duration::from_secs(20)).unwrap();
        assert!(ended, "the child hangs");
    }
}
