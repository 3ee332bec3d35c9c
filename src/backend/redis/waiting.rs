//! Waits for other libraries to release a gate.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch::Receiver;

use super::{
    gate::Gate,
    message::{self, Message},
    shared::Shared,
};
use crate::{
    backend::{
        Event, Result, StoreError, Watch,
        sql::{
            connection_handle::ConnectionHandle, dialect::READ, outcome::Outcome, replies::last,
            watched::until,
        },
    },
    runtime::{clock::Instant, jittered},
};

/// The bounds of the pause between polls of a gate whose holder publishes nothing. The pause is an
/// eighth of the time waited so far. A short hold is then noticed soon, and a long one costs
/// little. Clients of other libraries poll every 50 to 500 ms.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(100);
/// The longest pause for a gate without an expiry, which may be held for long.
const ENDLESS: Duration = Duration::from_millis(400);
/// The delay after the gate's expiry, by the server, before it is polled.
const AFTER: Duration = Duration::from_millis(10);

/// How long another library holds a gate, unless it renews it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shut {
    For(Duration),
    Endlessly,
}

fn shut(outcome: &Outcome) -> Option<Shut> {
    let left = outcome.first()?.number(0)?;
    Some(u64::try_from(left).map_or(Shut::Endlessly, |left| Shut::For(Duration::from_millis(left))))
}

async fn look(
    connection: &ConnectionHandle<Message>,
    dir: &str,
    gate: &Gate,
) -> Result<Option<Shut>> {
    let outcomes = connection.ask(READ, message::gate(dir, gate).into()).await?;
    Ok(shut(last(&outcomes)?))
}

/// Returns the pause before the next poll, or `None` to wait for a notification.
fn pause(shut: Shut, waited: Duration, is_notified: bool) -> Option<Duration> {
    let longest = match shut {
        Shut::Endlessly if is_notified => return None,
        Shut::For(left) if is_notified => return Some(left + jittered(AFTER)),
        Shut::Endlessly => ENDLESS,
        Shut::For(_) => LONGEST,
    };
    let pause = jittered((waited / 8).clamp(SHORTEST, longest));
    Some(match shut {
        Shut::For(left) => pause.min(left + jittered(AFTER)),
        Shut::Endlessly => pause,
    })
}

/// Watches the holder of a gate. Returns `None` if no other library holds it. The watch ends when
/// no other library holds the gate. If the first entry in the queue is of this session, it then
/// holds the gate.
pub(super) async fn watch(
    shared: &Arc<Shared>,
    connection: &ConnectionHandle<Message>,
    dir: &str,
    gate: Gate,
) -> Result<Option<Watch>> {
    let (connection, dir) = (connection.clone(), dir.to_owned());
    // Subscribe before the read, so that no later message is missed.
    let mut listener = match gate.channel() {
        // A user that may not subscribe polls.
        Some(channel) => Listener::begin(shared, &connection, channel).await.ok(),
        None => None,
    };
    let Some(mut now) = look(&connection, &dir, &gate).await? else { return Ok(None) };
    Ok(Some(Box::pin(async move {
        let began = Instant::now();
        loop {
            let pause = pause(now, began.elapsed(), listener.is_some());
            let due = pause.map(|pause| Instant::now() + pause);
            let published = async {
                match &mut listener {
                    Some(listener) => listener.published().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                published = published => published?,
                () = until(due) => {}
            }
            match look(&connection, &dir, &gate).await? {
                Some(shut) => now = shut,
                None => return Ok(Event::Deleted),
            }
        }
    })))
}

/// A listener on a channel.
struct Listener {
    shared: Arc<Shared>,
    connection: ConnectionHandle<Message>,
    name: Arc<str>,
    heard: Receiver<u64>,
}

impl Listener {
    /// Subscribes, and returns once the server has confirmed it.
    async fn begin(
        shared: &Arc<Shared>,
        connection: &ConnectionHandle<Message>,
        name: String,
    ) -> Result<Self> {
        let name: Arc<str> = name.into();
        let heard = shared.channels.listen(&name);
        let listener =
            Self { shared: Arc::clone(shared), connection: connection.clone(), name, heard };
        connection
            .ask("subscribing to a channel", Message::Listen(Arc::clone(&listener.name)))
            .await?;
        Ok(listener)
    }

    /// Returns once a message was published since the last call.
    async fn published(&mut self) -> Result<()> {
        let lost = |_| StoreError::Unavailable("the connection was lost".into());
        self.heard.changed().await.map_err(lost)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.channels.leave(&self.name, &self.heard, || {
            self.connection.order(Message::Deafen(Arc::clone(&self.name)));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_poll_interval_follows_remaining_wait() {
        let ms = Duration::from_millis;
        for (shut, waited, is_notified, least, most) in [
            (Shut::For(ms(9_000)), ms(0), false, 2, 8),
            (Shut::For(ms(9_000)), ms(400), false, 25, 75),
            (Shut::For(ms(9_000)), ms(90_000), false, 50, 150),
            (Shut::For(ms(20)), ms(90_000), false, 25, 35),
            (Shut::Endlessly, ms(90_000), false, 200, 600),
            (Shut::For(ms(9_000)), ms(0), true, 9_005, 9_015),
        ] {
            let pause = pause(shut, waited, is_notified).unwrap();
            assert!((ms(least)..=ms(most)).contains(&pause), "{shut:?} {waited:?}: {pause:?}");
        }
        assert_eq!(pause(Shut::Endlessly, ms(0), true), None);
    }

    #[test]
    fn a_gate_without_an_end_is_read() {
        assert_eq!(shut(&Outcome::of_one(&["1500"])), Some(Shut::For(Duration::from_millis(1500))));
        assert_eq!(shut(&Outcome::of_one(&["-1"])), Some(Shut::Endlessly));
        assert_eq!(shut(&Outcome::default()), None);
    }
}
