//! Gates: the keys that other libraries take for a lock, one of which the first one in a mutex'
//! queue has to have besides. `scripts/gates.lua` takes them, keeps them and gives them up, and
//! `waiting.rs` waits for others to do so.

use crate::{
    backend::{
        Durability, Queue, Result, StoreError,
        bridge::{Bridge, Layout},
        contract::store::Losses,
        sql::outcome::Outcome,
    },
    lost::LostReason,
};

/// A key that others take for a lock.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    pub(super) layout: Layout,
    pub(super) key: String,
}

impl Gate {
    /// That of a queue; `None`: it is not a mutex'.
    pub(super) fn of(bridge: Option<&Bridge>, dir: &str) -> Option<Self> {
        let bridge = bridge?;
        let (_, last) = dir.rsplit_once('/')?;
        let name = Queue::mutex_in(last)?;
        Some(Self { layout: bridge.layout, key: bridge.key(&name) })
    }

    /// The gate that somebody else has, as a listing of the queue has called that one.
    pub(super) fn named(bridge: Option<&Bridge>, key: &str) -> Option<Self> {
        let (dir, name) = key.rsplit_once('/')?;
        let gate = Self::of(bridge, dir)?;
        (name.strip_prefix("gate-")? == gate.layout.word()).then_some(gate)
    }

    /// The two arguments that name it.
    pub(super) fn arguments(gate: Option<&Self>) -> [&str; 2] {
        let (layout, key) = gate.map(|gate| (gate.layout.word(), gate.key.as_str())).unzip();
        [layout, key].map(Option::unwrap_or_default)
    }

    /// Where it is told that the gate was given up.
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

/// Tells the holders that have lost their gates, by a keepalive's answer: its second outcome. As
/// long as one cannot be told, which joined a moment ago, that was no proof of life.
pub(super) fn tell_losses(losses: &Losses, outcomes: &[Outcome]) -> Result<()> {
    let lost = outcomes.get(1).map(Outcome::rows).unwrap_or_default();
    for key in lost.iter().filter_map(|row| row.text(0)) {
        if !losses.report(key, LostReason::Evicted) {
            return Err(StoreError::Unavailable(format!("{key} has lost its gate").into()));
        }
    }
    Ok(())
}

/// What a bridge takes away from what the server promises.
pub(super) fn limit(durability: &mut Durability, bridge: &Bridge) {
    durability.exclusive = false;
    let word = bridge.layout.word();
    durability.reasons.push(format!(
        "bridge={word}: what others hold ends with the time to live that they gave it, whether or \
         not they are done, and nobody tells them of a loss"
    ));
    durability.reasons.push(format!(
        "bridge={word}: others take any key that the server's clock has let expire: if it is set \
         forward, or the server fails over, they may hold a lock for which a guard is valid yet"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mutexes_have_gates() {
        let key = |bridge: Option<&Bridge>, dir| Gate::of(bridge, dir).map(|gate| gate.key);
        let bridge = Bridge::new("plain", "x:".to_owned());
        assert_eq!(key(bridge.as_ref(), "/ns/a%2Fb").as_deref(), Some("x:a/b"));
        assert_eq!(key(bridge.as_ref(), "/ns/%2E").as_deref(), Some("x:."));
        assert_eq!(key(bridge.as_ref(), "/ns/a!requests"), None);
        assert_eq!(key(None, "/ns/a"), None);
        let named = |key| Gate::named(bridge.as_ref(), key).map(|gate| gate.key);
        assert_eq!(named("/ns/a/gate-plain").as_deref(), Some("x:a"));
        assert_eq!(named("/ns/a/gate-redisson"), None);
        assert_eq!(named("/ns/a/1f-x"), None);
    }

    #[test]
    fn redisson_tells_in_a_channel_of_the_same_slot() {
        let channel = |layout, key: &str| Gate { layout, key: key.to_owned() }.channel();
        let redisson = |key| channel(Layout::Redisson, key);
        assert_eq!(redisson("a").as_deref(), Some("redisson_lock__channel:{a}"));
        assert_eq!(redisson("{a}:b").as_deref(), Some("redisson_lock__channel:{a}:b"));
        assert_eq!(channel(Layout::Plain, "a"), None);
    }
}
