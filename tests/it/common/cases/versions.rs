//! Tables of a later version, with clients of this one still connected.

use std::time::Duration;

use distlock::{Client, Error};

use crate::common::{
    SOON, connected, contended, eventually, queue_of, reason, refused, sql::Sql, within,
};

/// The statements of a later build before it changes the tables, as in
/// `docs/design/adding-a-store.md`.
pub(crate) struct Change {
    pub(crate) version: &'static str,
    /// Makes all clients of this version fail from now on.
    pub(crate) begin: &'static [&'static str],
    /// Reverts the change.
    pub(crate) undo: &'static [&'static str],
    /// Selects the session with this number unless it has expired.
    pub(crate) lives: fn(session: i64) -> String,
    /// Selects all entries of all queues.
    pub(crate) entries: &'static str,
}

impl Change {
    /// Clients of this version lose their locks before another build may grant them. They are
    /// granted no others, and write nothing.
    pub(crate) async fn is_noticed(&self, url: &str) {
        const TTL: Duration = Duration::from_secs(4);
        let builder = || Client::builder(url).session_ttl(TTL);
        let [holder, other] = [connected(builder()).await, connected(builder()).await];
        let (guard, waiter) = contended(&holder, &other, "a").await;
        queue_of(&holder, "a", 2).await;
        let mut operator = Sql::connect(url).await;
        let version: u32 = operator.ask(self.version).await.rows[0].parse().expect("a number");
        let entries = operator.ask(self.entries).await.rows;
        assert_eq!(entries.len(), 2);
        for statement in self.begin {
            operator.ask(statement).await;
        }
        let later = format!("version {}", version + 1);
        let error = refused(builder()).await;
        assert!(reason(&error).contains(&later), "{error:?}");
        assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");

        eventually(TTL + SOON, "the holder is notified", async || !guard.is_valid()).await;
        let (_, key) = guard.key().rsplit_once('/').expect("a path");
        let session = key.split_once('-').and_then(|(hex, _)| i64::from_str_radix(hex, 16).ok());
        let lives = (self.lives)(session.expect("a session"));
        assert_eq!(operator.ask(&lives).await.rows.len(), 1, "the holder was notified too late");
        let waited = waiter.result(TTL + SOON).await;
        assert!(waited.is_err(), "{waited:?}");
        let token = guard.fencing_token();
        assert!(guard.unlock().await.is_err());
        for client in [&holder, &other] {
            eventually(TTL + SOON, "connected clients are refused as well", async || {
                let tried = client.mutex("b").try_lock().await;
                reason(&tried.expect_err("an unknown version")).contains(&later)
            })
            .await;
        }
        assert_eq!(operator.ask(self.entries).await.rows, entries, "nothing was written");

        for statement in self.undo {
            operator.ask(statement).await;
        }
        let next = connected(builder()).await;
        let guard = within(TTL + SOON, "the lock is granted", next.mutex("a").lock()).await;
        let guard = guard.expect("granted");
        assert!(guard.fencing_token() > token, "{guard:?} after {token:?}");
        guard.unlock().await.expect("released");
    }
}
