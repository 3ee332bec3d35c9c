//! The content of the file after the host lost its power and restarted.
//!
//! SQLite leaves most confirmed commits unflushed. The tests discard them, as a power loss at any
//! point may. Afterwards locks are free, tokens neither fall nor repeat, and guarded writes exist.

use std::{fs, path::Path};

use distlock::{Client, MultiLockGuard, sqlite::Requests};
use fastrand::Rng;

use crate::common::{
    SOON, connect,
    sqlite::{Folder, dial},
    within,
};

pub(super) const FILE: &str = "locks.db";
pub(super) const DATA: &str = "/data/a";

/// The operations confirmed before the power loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirmed {
    /// The highest granted token.
    pub(super) token: u64,
    /// The last guarded write.
    pub(super) written: u64,
}

impl Confirmed {
    /// Locks `names` names at once and records the last token.
    pub(super) async fn lock(&mut self, client: &Client, names: u64) -> MultiLockGuard {
        let names = (0..names).map(|name| format!("lock-{name}"));
        let granted = within(SOON * 6, "the locks are free", client.lock_all(names)).await;
        let guards = granted.expect("granted");
        for guard in guards.guards() {
            let token = guard.fencing_token().as_u64();
            assert!(token > self.token, "{token} after {self:?}");
            self.token = token;
        }
        guards
    }

    /// Opens the remaining file as the first client after the next boot.
    pub(super) async fn is_kept(mut self, folder: &Folder, context: &str) {
        let file = dial(&folder.path(FILE));
        let query = |sql: &str| file.query_row(sql, [], |row| row.get::<_, String>(0));
        assert_eq!(query("PRAGMA integrity_check").as_deref(), Ok("ok"), "{context}");
        // The tables may not exist yet.
        let _ = file.execute("UPDATE distlock_sessions SET boot = 'the last one'", []);
        drop(file);
        let client = connect(&folder.url(FILE), SOON).await;
        let guard = client.mutex("lock-0").try_lock().await.expect("a result");
        let guard = guard.unwrap_or_else(|| panic!("the lock is held: {context}, {self:?}"));
        let token = guard.fencing_token().as_u64();
        assert!(token > self.token, "token {token}: {context}, {self:?}");
        let data = guard.get(DATA).await.expect("a result");
        let data = data.map_or(0, |data| data.len() as u64);
        assert!(data >= self.written, "{data} bytes are left: {context}, {self:?}");
        self.token = token;
        guard.unlock().await.expect("released");
        self.lock(&client, 5).await.unlock().await.expect("released");
        client.close().await.expect("closed");
    }
}

fn requests(file: &Path) -> Requests {
    distlock::sqlite::requests(file).expect("the file is open")
}

/// The WAL is cut at the end of its last flush, and at a random later position. After a cut it has
/// no bytes, or random ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_writes_outlast_a_wal_that_is_cut() {
    let folder = Folder::new();
    let client = connect(&folder.url(FILE), SOON).await;
    let mut random = Rng::new();
    let (mut confirmed, mut flushed, mut flushes) = (Confirmed::default(), 0, 0);
    let mut cut = async |confirmed: Confirmed, random: &mut Rng| {
        let wal = fs::read(folder.path("locks.db-wal")).expect("a WAL");
        let now = requests(&folder.path(FILE)).flushes;
        if now > flushes {
            (flushed, flushes) = (wal.len(), now);
        }
        for at in [flushed, random.usize(flushed..=wal.len())] {
            let mut cut = wal.clone();
            if random.bool() {
                cut.truncate(at);
            } else {
                cut[at..].fill_with(|| random.u8(..));
            }
            let left = Folder::new();
            fs::copy(folder.path(FILE), left.path(FILE)).expect("copied");
            fs::write(left.path("locks.db-wal"), cut).expect("written");
            confirmed.is_kept(&left, &format!("{flushed} bytes were flushed, cut at {at}")).await;
        }
    };
    for round in 1..=16 {
        let guards = confirmed.lock(&client, random.u64(1..100)).await;
        cut(confirmed, &mut random).await;
        if random.bool() {
            let guard = guards.get("lock-0").expect("one of them");
            guard.put(DATA, vec![0; round]).await.expect("written");
            confirmed.written = round as u64;
            cut(confirmed, &mut random).await;
        }
        guards.unlock().await.expect("released");
        cut(confirmed, &mut random).await;
    }
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_flush_one_commit_of_a_thousand() {
    let folder = Folder::new();
    let client = connect(&folder.url(FILE), SOON).await;
    for _ in 0..400 {
        let guard = client.mutex("a").lock().await.expect("granted");
        guard.unlock().await.expect("released");
    }
    let counts = requests(&folder.path(FILE));
    assert!(counts.commits > 800 && counts.flushes == 1, "{counts:?}");
    client.close().await.expect("closed");
}
