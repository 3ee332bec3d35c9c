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

/// Who has been granted, and when, the oldest first. Most are gone again before it is their time to
/// be looked after.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    own_keys: Mutex<VecDeque<(Instant, Weak<OwnKey>)>>,
    first: Notify,
}

impl Granted {
    pub(crate) fn add(&self, own_key: &Arc<OwnKey>) {
        let mut own_keys = self.own_keys.lock();
        own_keys.push_back((Instant::now(), Arc::downgrade(own_key)));
        // While there are others it will wake for them.
        if own_keys.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits for a key whose time has come.
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

    /// The first of those that are still held: nobody wakes up for the others.
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
