//! Tables of a later version, beside clients of this one.

use std::time::Duration;

use distlock::{Client, Error};

use crate::common::{
    SOON, connected, contended, eventually, queue_of, reason, refused, sql::Sql, within,
};

/// What a later build does before it changes the tables, as `docs/design/adding-a-store.md` has it.
pub(crate) struct Change {
    pub(crate) version: &'static str,
    /// From now on no client of this version can do anything.
    pub(crate) begin: &'static [&'static str],
    /// If it gives up.
    pub(crate) undo: &'static [&'static str],
    /// The session of this number, if its time is not over yet.
    pub(crate) lives: fn(session: i64) -> String,
    /// All that stands in queues.
    pub(crate) entries: &'static str,
}

impl Change {
    /// Nobody holds or gets what another build may give away, and nothing is written.
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

        eventually(TTL + SOON, "the holder is told", async || !guard.is_valid()).await;
        let (_, key) = guard.key().rsplit_once('/').expect("a path");
        let session = key.split_once('-').and_then(|(hex, _)| i64::from_str_radix(hex, 16).ok());
        let lives = (self.lives)(session.expect("a session"));
        assert_eq!(operator.ask(&lives).await.rows.len(), 1, "it was told too late");
        let waited = waiter.result(TTL + SOON).await;
        assert!(waited.is_err(), "{waited:?}");
        let token = guard.fencing_token();
        assert!(guard.unlock().await.is_err());
        for client in [&holder, &other] {
            eventually(TTL + SOON, "those who were there are refused, too", async || {
                let tried = client.mutex("b").try_lock().await;
                reason(&tried.expect_err("it is not known")).contains(&later)
            })
            .await;
        }
        assert_eq!(operator.ask(self.entries).await.rows, entries, "nothing was written");

        for statement in self.undo {
            operator.ask(statement).await;
        }
        let next = connected(builder()).await;
        let guard = within(TTL + SOON, "it is granted", next.mutex("a").lock()).await;
        let guard = guard.expect("granted");
        assert!(guard.fencing_token() > token, "{guard:?} after {token:?}");
        guard.unlock().await.expect("released");
    }
}
