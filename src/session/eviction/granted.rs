//! The keys that were granted a moment ago.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use tokio::sync::Notify;

use super::WATCH_AFTER;
use crate::{
    runtime::{
        clock::{Instant, sleep_until},
        mutex::Mutex,
    },
    session::own_key::OwnKey,
};

/// The granted keys with the time of the grant, oldest first. Most are released before it is time
/// to watch them.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    own_keys: Mutex<VecDeque<(Instant, Weak<OwnKey>)>>,
    first: Notify,
}

impl Granted {
    pub(crate) fn add(&self, own_key: &Arc<OwnKey>) {
        let mut own_keys = self.own_keys.lock();
        own_keys.push_back((Instant::now(), Arc::downgrade(own_key)));
        // While there are other keys, the task wakes up for them anyway.
        if own_keys.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits for a key that has been held long enough to be watched.
    pub(super) async fn due(&self) -> Arc<OwnKey> {
        loop {
            let oldest = self.oldest();
            let Some((granted, own_key)) = oldest else {
                self.first.notified().await;
                continue;
            };
            let due = granted + WATCH_AFTER;
            if due <= Instant::now() {
                self.own_keys.lock().pop_front();
                return own_key;
            }
            drop(own_key);
            sleep_until(due).await;
        }
    }

    /// Returns the oldest key that is still held. Released keys need no wake-up.
    fn oldest(&self) -> Option<(Instant, Arc<OwnKey>)> {
        let mut own_keys = self.own_keys.lock();
        loop {
            let (granted, own_key) = own_keys.front()?;
            match own_key.upgrade().filter(|own_key| own_key.is_held()) {
                Some(own_key) => return Some((*granted, own_key)),
                None => drop(own_keys.pop_front()),
            }
        }
    }
}
