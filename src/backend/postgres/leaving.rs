//! Pending releases through the user's pool.
//!
//! On one connection a session's join is served after the release that it follows. On two
//! connections of a pool the join may be served first, and would find the entry that its own client
//! has given up. The join therefore waits.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::Notify;

use crate::runtime::{OnDrop, mutex::Mutex};

/// The number of pending releases for each queue's directory.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    dirs: Mutex<HashMap<String, usize>>,
    ended: Notify,
}

impl Leaving {
    /// Begins a release, which is pending until the value is dropped.
    pub(super) fn begin(self: &Arc<Self>, dir: &str) -> OnDrop<impl Fn() + use<>> {
        *self.dirs.lock().entry(dir.to_owned()).or_default() += 1;
        let (leaving, dir) = (Arc::clone(self), dir.to_owned());
        OnDrop(move || leaving.end(&dir))
    }

    fn end(&self, dir: &str) {
        let mut dirs = self.dirs.lock();
        if let Some(count) = dirs.get_mut(dir) {
            *count -= 1;
            if *count == 0 {
                dirs.remove(dir);
            }
        }
        drop(dirs);
        self.ended.notify_waiters();
    }

    /// Returns when no release from these queues is pending.
    pub(super) async fn none_in(&self, queues: &[&str]) {
        loop {
            // From here on it is notified.
            let ended = self.ended.notified();
            let is_left = |queue: &&str| self.dirs.lock().contains_key(*queue);
            if !queues.iter().any(is_left) {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn join_waits_for_all_releases_from_its_queues() {
        let leaving = Arc::<Leaving>::default();
        let [one, other] = [leaving.begin("/ns/a"), leaving.begin("/ns/a")];
        assert!(leaving.none_in(&["/ns/b"]).now_or_never().is_some(), "another queue");
        let queues = ["/ns/b", "/ns/a"];
        let mut waits = Box::pin(leaving.none_in(&queues));
        assert!((&mut waits).now_or_never().is_none());
        drop(one);
        assert!((&mut waits).now_or_never().is_none(), "one of two");
        drop(other);
        assert!(waits.now_or_never().is_some());
        assert!(leaving.dirs.lock().is_empty());
    }
}
