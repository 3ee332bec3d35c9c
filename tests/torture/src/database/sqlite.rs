//! An SQLite file in a small folder that can be filled.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use distlock_testkit::{Result, framing::Framing};
use rusqlite::types::ValueRef;

use super::{Connection, Database, Rows, Setup, own::random, words::Tables};

pub(super) static WORDS: Tables = Tables {
    sessions: "distlock_sessions",
    queues: "distlock_meta",
    entries: "distlock_entries",
    members: "distlock_entries",
    alone: None,
    data: "distlock_data",
    watches: None,
    key: "queue || '/' || printf('%x', session) || '-' || ticket || \
          CASE label WHEN '' THEN '' ELSE '.' || label END",
    text: "CAST(value AS TEXT)",
    value: ["CAST('", "' AS BLOB)"],
    besides: [", changed", ", 0"],
    counting: &[
        "CREATE TABLE torture_writes (\
         dir TEXT, name TEXT, version INTEGER NOT NULL, PRIMARY KEY (dir, name))",
        "CREATE TRIGGER torture_begins AFTER INSERT ON distlock_data BEGIN \
         INSERT INTO torture_writes VALUES (NEW.dir, NEW.name, 1); END",
        "CREATE TRIGGER torture_counts AFTER UPDATE ON distlock_data BEGIN \
         UPDATE torture_writes SET version = version + 1 \
         WHERE dir = NEW.dir AND name = NEW.name; END",
        "CREATE TRIGGER torture_ends AFTER DELETE ON distlock_data BEGIN \
         DELETE FROM torture_writes WHERE dir = OLD.dir AND name = OLD.name; END",
    ],
    begin: "BEGIN IMMEDIATE",
    locking: None,
    read_only: [&[], &[]],
    // The next write needs space at once.
    room: [&["PRAGMA wal_checkpoint(TRUNCATE)"], &[]],
    event: None,
};

#[derive(Debug)]
pub(super) struct Sqlite {
    setup: Setup,
    folder: PathBuf,
    /// Why the folder is not limited in size.
    unbounded: Option<String>,
}

const FILE: &str = "locks.db";

/// Mounts or unmounts a file system, as root.
fn mounting(program: &str, arguments: &[&str]) -> std::result::Result<(), String> {
    let mut command = match rustix::process::geteuid().is_root() {
        true => Command::new(program),
        false => Command::new("sudo"),
    };
    if !rustix::process::geteuid().is_root() {
        command.args(["-n", program]);
    }
    let output = command.args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

impl Sqlite {
    pub(super) async fn start() -> Result<Self> {
        let name = format!("distlock-torture-{:08x}", random().u32(..));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        let path = folder.display().to_string();
        let mounted =
            mounting("mount", &["-t", "tmpfs", "-o", "size=16m,mode=1777", "tmpfs", &path]);
        let url = format!("sqlite://{}", folder.join(FILE).display());
        // The framing is unused: there is no network.
        let setup = Setup::new(&WORDS, [url, String::new()], Framing::Jute);
        Ok(Self { setup, folder, unbounded: mounted.err() })
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if self.unbounded.is_none() {
            let _ = mounting("umount", &["--lazy", &self.folder.display().to_string()]);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[async_trait]
impl Database for Sqlite {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn dial(&self, _: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(File::open(&self.folder.join(FILE))?))
    }

    async fn fill(&self, _: usize) -> Result<()> {
        if let Some(why) = &self.unbounded {
            let reason = "only root can mount a disk that is small enough to be filled";
            return Err(format!("{reason}; exclude it by --faults all,-disk-full: {why}").into());
        }
        let mut file = fs::File::create(self.folder.join("full"))?;
        match std::io::copy(&mut std::io::repeat(0), &mut file) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Ok(()),
            other => Err(format!("the disk is not full: {other:?}").into()),
        }
    }

    async fn free(&self, _: usize) -> Result<()> {
        match fs::remove_file(self.folder.join("full")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
struct File(Arc<Mutex<rusqlite::Connection>>);

impl File {
    fn open(path: &Path) -> Result<Self> {
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(900))?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }
}

#[async_trait]
impl Connection for File {
    async fn ask(&mut self, sql: &str) -> Result<Rows> {
        let (file, sql) = (Arc::clone(&self.0), sql.to_owned());
        tokio::task::spawn_blocking(move || {
            let file = file.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(ask(&file, &sql)?)
        })
        .await?
    }
}

fn ask(file: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Rows> {
    let mut statement = file.prepare(sql)?;
    let columns = statement.column_count();
    let (mut rows, mut all) = (statement.query([])?, Vec::new());
    while let Some(row) = rows.next()? {
        let text = |at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Text(text) | ValueRef::Blob(text) => {
                    String::from_utf8_lossy(text).into_owned()
                }
                ValueRef::Real(_) | ValueRef::Null => String::new(),
            })
        };
        all.push((0..columns).map(text).collect::<rusqlite::Result<_>>()?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_returned_as_text() {
        let file = rusqlite::Connection::open_in_memory().unwrap();
        assert_eq!(ask(&file, "CREATE TABLE t (a)").unwrap(), Rows::new());
        assert_eq!(ask(&file, "INSERT INTO t VALUES (X'61'), (NULL), (-7)").unwrap(), Rows::new());
        assert_eq!(
            ask(&file, "SELECT a, 'b' FROM t").unwrap(),
            [["a", "b"], ["", "b"], ["-7", "b"]]
        );
        assert!(ask(&file, "SELECT b FROM t").is_err());
    }
}
