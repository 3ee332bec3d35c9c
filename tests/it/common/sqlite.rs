//! The harness of SQLite. The operator has its own connection to a file in the harness's folder.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use distlock::FailoverBehavior;
use rusqlite::{Connection, Params, params};

use super::{Cost, Harness, Link, SOON, Sessions};

/// A folder that is removed with its test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = format!("distlock-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        url(&self.path(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn url(file: &Path) -> String {
    format!("sqlite://{}", file.display())
}

/// Opens a connection for the caller alone.
pub(crate) fn dial(file: &Path) -> Connection {
    let connection = Connection::open(file).expect("the file opens");
    connection.busy_timeout(SOON).expect("the timeout is set");
    connection
}

/// Returns the milliseconds of `CLOCK_BOOTTIME`, as reported by the kernel.
pub(crate) fn now() -> i64 {
    let uptime = fs::read_to_string("/proc/uptime").expect("Linux");
    let seconds: f64 =
        uptime.split(' ').next().and_then(|field| field.parse().ok()).expect("a number");
    (seconds * 1000.0) as i64
}

pub(crate) struct Sqlite {
    folder: Folder,
    operator: Mutex<Connection>,
}

/// The SQL expression of an entry's key.
const KEY: &str = "queue || '/' || printf('%x', session) || '-' || ticket || \
                   CASE label WHEN '' THEN '' ELSE '.' || label END";

impl Sqlite {
    const FILE: &str = "locks.db";

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path(Self::FILE)
    }

    /// Runs an operator's statement, and returns the first column of its result.
    fn ask<T: rusqlite::types::FromSql>(&self, sql: &str, params: impl Params) -> Vec<T> {
        let operator = self.operator.lock().expect("no panic");
        let mut statement = operator.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows = statement.query_map(params, |row| row.get(0)).expect("a reply");
        rows.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

#[async_trait]
impl Harness for Sqlite {
    async fn start() -> Self {
        let folder = Folder::new();
        let first = distlock::Client::connect(folder.url(Self::FILE)).await;
        // The first client creates the tables.
        first.expect("the client opens the file").close().await.expect("closed");
        let operator = Mutex::new(dial(&folder.path(Self::FILE)));
        Self { folder, operator }
    }

    fn is_shared() -> bool {
        false
    }

    fn url(&self) -> String {
        url(&self.file())
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        (true, FailoverBehavior::Blocks)
    }

    /// Only of live sessions. Expired ones are removed when a client next acquires a lock.
    async fn keys(&self, namespace: &str) -> Vec<String> {
        let sql = format!(
            "SELECT {KEY} FROM distlock_entries JOIN distlock_sessions AS s ON s.id = session \
             WHERE queue LIKE ?1 || '/%' AND s.expires > ?2 ORDER BY number"
        );
        self.ask(&sql, params![namespace, now()])
    }

    async fn delete_key(&self, key: &str) {
        let sql = format!("DELETE FROM distlock_entries WHERE {KEY} = ?1 RETURNING 1");
        assert_eq!(self.ask::<i64>(&sql, [key]).len(), 1, "no key {key}");
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        let sql = "SELECT value FROM distlock_data WHERE dir || '/' || name = ?1";
        self.ask(sql, [key]).pop()
    }

    async fn erase(&self, key: &str) {
        let sql = "DELETE FROM distlock_data WHERE dir || '/' || name = ?1 RETURNING 1";
        self.ask::<i64>(sql, [key]);
    }

    /// Returns what this process has requested of the file. The operator's connection is not
    /// counted.
    async fn cost(&self, _: &[i64]) -> Cost {
        let done = distlock::sqlite::requests(self.file()).unwrap_or_default();
        Cost {
            requests: done.reads + done.writes,
            keepalives: done.keepalives,
            watches: 0,
            events: done.events.cast_signed(),
        }
    }

    async fn link(&self) -> Arc<dyn Link> {
        let name = format!("way-{:08x}", fastrand::u32(..));
        let [open, cut] = [name.clone(), format!("{name}-cut")].map(|name| self.folder.path(&name));
        symlink(".", &open).expect("a link");
        Arc::new(Way { open, cut })
    }
}

#[async_trait]
impl Sessions for Sqlite {
    async fn session_of(&self, key: &str) -> i64 {
        let sql = format!("SELECT session FROM distlock_entries WHERE {KEY} = ?1");
        self.ask(&sql, [key]).pop().unwrap_or_else(|| panic!("no key {key}"))
    }

    async fn session_exists(&self, session: i64) -> bool {
        let sql = "SELECT id FROM distlock_sessions WHERE id = ?1 AND expires > ?2";
        !self.ask::<i64>(sql, [session, now()]).is_empty()
    }

    async fn end_session_of(&self, key: &str) {
        let session = self.session_of(key).await;
        self.ask::<i64>("DELETE FROM distlock_sessions WHERE id = ?1 RETURNING id", [session]);
    }
}

/// A symbolic link to the folder that can be removed. A client that opened the file through it then
/// finds no file there.
struct Way {
    open: PathBuf,
    cut: PathBuf,
}

impl Link for Way {
    fn url(&self) -> String {
        url(&self.open.join(Sqlite::FILE))
    }

    fn cut_off_key(&self, _: &str) {
        self.set_reachable(false);
    }

    fn set_reachable(&self, reachable: bool) {
        let (from, to) = if reachable { (&self.cut, &self.open) } else { (&self.open, &self.cut) };
        // The link may be in that state already.
        let _ = fs::rename(from, to);
    }
}
