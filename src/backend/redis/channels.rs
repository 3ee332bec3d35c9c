//! Channels that this process is subscribed to, and their listeners.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;

use crate::runtime::mutex::Mutex;

/// The number of messages received, by channel name.
#[derive(Debug, Default)]
pub(super) struct Channels(Mutex<HashMap<Arc<str>, watch::Sender<u64>>>);

impl Channels {
    pub(super) fn listen(&self, name: &Arc<str>) -> watch::Receiver<u64> {
        self.0.lock().entry(Arc::clone(name)).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Notifies the listeners of a channel.
    pub(super) fn tell(&self, name: &str) {
        let sender = self.0.lock().get(name).cloned();
        // Notify without the lock: a listener may run at once.
        if let Some(sender) = sender {
            sender.send_modify(|heard| *heard += 1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Drops all channels, as the connection has ended.
    pub(super) fn lose(&self) {
        drop(std::mem::take(&mut *self.0.lock()));
    }

    /// Removes a listener. If it was the last one, `deafen` ends the subscription before another
    /// listener can begin the next one.
    pub(super) fn leave(&self, name: &str, heard: &watch::Receiver<u64>, deafen: impl FnOnce()) {
        let mut channels = self.0.lock();
        let Some(sender) = channels.get(name) else { return };
        // The leaving listener still counts.
        let last = sender.subscribe().same_channel(heard) && sender.receiver_count() == 1;
        if last {
            channels.remove(name);
            deafen();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_last(channels: &Channels, name: &str, heard: &watch::Receiver<u64>) -> bool {
        let mut last = false;
        channels.leave(name, heard, || last = true);
        last
    }

    #[tokio::test]
    async fn subscribers_are_notified() {
        let channels = Channels::default();
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        let [mut one, mut again, other] = [&a, &a, &b].map(|name| channels.listen(name));
        channels.tell("a");
        channels.tell("c");
        one.changed().await.unwrap();
        again.changed().await.unwrap();
        assert!(!other.has_changed().unwrap());
        assert!(!is_last(&channels, "a", &one));
        drop(one);
        assert!(is_last(&channels, "a", &again));
        assert!(!is_last(&channels, "a", &again));
        channels.lose();
        assert!(other.has_changed().is_err());
        // A newer channel of that name is independent of the former one.
        let _later = channels.listen(&b);
        assert!(!is_last(&channels, "b", &other));
    }
}
