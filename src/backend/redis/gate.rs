//! Gates: the keys that other libraries use as their locks. With a bridge, the first entry in the
//! queue of a mutex must hold the gate, too. `scripts/gates.lua` acquires, renews and releases
//! gates, and `waiting.rs` waits for other libraries to release them.

use crate::{
    backend::{
        Durability, Queue, Result, StoreError,
        bridge::{Bridge, Layout},
        contract::store::Losses,
        sql::outcome::Outcome,
    },
    lost::LostReason,
};

/// A key that other libraries use as a lock.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    pub(super) layout: Layout,
    pub(super) key: String,
}

impl Gate {
    /// Returns the gate of a queue, or `None` if the queue is not that of a mutex.
    pub(super) fn of(bridge: Option<&Bridge>, dir: &str) -> Option<Self> {
        let bridge = bridge?;
        let (_, last) = dir.rsplit_once('/')?;
        let name = Queue::mutex_in(last)?;
        Some(Self { layout: bridge.layout, key: bridge.key(&name) })
    }

    /// Returns the gate that another library holds and its queue's directory, by the key in a
    /// listing of the queue.
    pub(super) fn named<'k>(bridge: Option<&Bridge>, key: &'k str) -> Option<(&'k str, Self)> {
        let (dir, name) = key.rsplit_once('/')?;
        let gate = Self::of(bridge, dir)?;
        (name.strip_prefix("gate-")? == gate.layout.name()).then_some((dir, gate))
    }

    /// Returns the two arguments that name a gate.
    pub(super) fn arguments(gate: Option<&Self>) -> [&str; 2] {
        let (layout, key) = gate.map(|gate| (gate.layout.name(), gate.key.as_str())).unzip();
        [layout, key].map(Option::unwrap_or_default)
    }

    /// Returns the channel on which releases of the gate are published.
    pub(super) fn channel(&self) -> Option<String> {
        match self.layout {
            Layout::Plain => None,
            Layout::Redisson if self.key.contains('{') => {
                Some(format!("redisson_lock__channel:{}", self.key))
            }
            Layout::Redisson => Some(format!("redisson_lock__channel:{{{}}}", self.key)),
        }
    }
}

/// Notifies the holders of lost gates, which a keepalive reports in its second outcome. A holder
/// that joined a moment ago may not be known here yet. The keepalive then fails, so that it does
/// not extend the session's deadline.
pub(super) fn tell_losses(losses: &Losses, outcomes: &[Outcome]) -> Result<()> {
    let lost = outcomes.get(1).map(Outcome::rows).unwrap_or_default();
    let keys = lost.iter().filter_map(|row| row.text(0));
    // All of them are reported, whatever the first report returns.
    let unknown: Vec<_> = keys.filter(|key| !losses.report(key, LostReason::Evicted)).collect();
    match unknown.first() {
        None => Ok(()),
        Some(key) => Err(StoreError::Unavailable(
            format!(
                "{key}: the key that other libraries use for this lock was deleted or taken over"
            )
            .into(),
        )),
    }
}

/// Adds the limits of a bridge to what the server guarantees.
pub(super) fn limit(durability: &mut Durability, bridge: &Bridge) {
    durability.exclusive = false;
    let layout = bridge.layout.name();
    durability.reasons.push(format!(
        "bridge={layout}: a lock of another library may expire while its holder's work continues, \
         and the holder is not notified"
    ));
    durability.reasons.push(format!(
        "bridge={layout}: keys expire by the server's clock. If that clock is set forward, or the \
         server fails over, another library may acquire a lock while distlock's guard is still \
         valid"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sql::outcome::Row;

    #[test]
    fn only_mutexes_have_gates() {
        let key = |bridge: Option<&Bridge>, dir| Gate::of(bridge, dir).map(|gate| gate.key);
        let bridge = Bridge::new("plain", "x:".to_owned());
        assert_eq!(key(bridge.as_ref(), "/ns/a%2Fb").as_deref(), Some("x:a/b"));
        assert_eq!(key(bridge.as_ref(), "/ns/%2E").as_deref(), Some("x:."));
        assert_eq!(key(bridge.as_ref(), "/ns/a!requests"), None);
        assert_eq!(key(None, "/ns/a"), None);
        let named = |key| Gate::named(bridge.as_ref(), key).map(|(dir, gate)| (dir, gate.key));
        assert_eq!(named("/ns/a/gate-plain"), Some(("/ns/a", "x:a".to_owned())));
        assert_eq!(named("/ns/a/gate-redisson"), None);
        assert_eq!(named("/ns/a/1f-x"), None);
    }

    #[test]
    fn every_lost_gate_is_reported() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let losses = Losses::default();
        losses.listen(Box::new(move |key, _| {
            sender.send(key.to_owned()).unwrap();
            key != "a"
        }));
        let rows = ["a", "b"].map(|key| Row::new(vec![Some(key.to_owned())]));
        let outcomes = [Outcome::default(), Outcome::new(rows.to_vec(), 2)];
        let error = tell_losses(&losses, &outcomes).unwrap_err();
        assert!(error.reason().starts_with("a: "), "{error:?}");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["a", "b"]);
        tell_losses(&losses, &outcomes[..1]).unwrap();
    }

    #[test]
    fn redisson_channel_is_in_the_slot_of_its_key() {
        let channel = |layout, key: &str| Gate { layout, key: key.to_owned() }.channel();
        let redisson = |key| channel(Layout::Redisson, key);
        assert_eq!(redisson("a").as_deref(), Some("redisson_lock__channel:{a}"));
        assert_eq!(redisson("{a}:b").as_deref(), Some("redisson_lock__channel:{a}:b"));
        assert_eq!(channel(Layout::Plain, "a"), None);
    }
}
