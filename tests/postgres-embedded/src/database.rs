//! PostgreSQL on a folder of its own.

use std::{fmt, io, path::Path};

use pglite_oxide::{ExecProtocolOptions, Pglite};
use tempfile::TempDir;

use crate::frames::{frames, query, read_texts};

/// Begins a new database. Unqualified calls of these functions reach the clock that a test sets,
/// because the schema precedes `pg_catalog` in the search path.
const CLOCK: &str = "
CREATE SCHEMA embedded;
GRANT USAGE ON SCHEMA embedded TO public;
CREATE FUNCTION embedded.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.now() + pg_catalog.current_setting('embedded.clock')::interval;
$$;
CREATE FUNCTION embedded.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
PARALLEL SAFE AS $$
    SELECT pg_catalog.clock_timestamp() + pg_catalog.current_setting('embedded.clock')::interval;
$$;
-- The time in seconds since 1970 at which the server claims to have started, or an empty text.
CREATE FUNCTION embedded.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql STABLE
PARALLEL SAFE AS $$
    SELECT coalesce(
        to_timestamp(nullif(pg_catalog.current_setting('embedded.started'), '')::float8),
        pg_catalog.pg_postmaster_start_time());
$$;
-- Each connection has a process of its own.
CREATE FUNCTION embedded.pg_backend_pid() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.current_setting('embedded.connection')::integer;
$$;
CREATE FUNCTION embedded.current_setting(name text) RETURNS text LANGUAGE sql STABLE
PARALLEL SAFE AS $$
    SELECT CASE name WHEN 'fsync' THEN 'on' ELSE pg_catalog.current_setting(name) END;
$$;
GRANT ALL ON SCHEMA public TO public;
CREATE ROLE app LOGIN;
ALTER DATABASE template1 OWNER TO app;
";

/// A running PostgreSQL.
pub(crate) struct Database {
    /// `None` while it restarts.
    runs: Option<Pglite>,
    folder: TempDir,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn run(folder: &Path) -> io::Result<Pglite> {
    Pglite::builder()
        .path(folder)
        .postgres_config("embedded.started", "")
        .postgres_config("embedded.clock", "0")
        .postgres_config("embedded.connection", "0")
        // The machine does not lose power in a test, so no file has to be flushed.
        .postgres_config("fsync", "off")
        // Without a sender of its log, it waits for no standby, whatever its settings are.
        .postgres_config("max_wal_senders", "0")
        .postgres_config("search_path", "embedded, pg_catalog, public")
        .postgres_config("synchronous_commit", "on")
        .open()
        .map_err(|error| failed(format!("{error:#}")))
}

impl Database {
    /// Creates a database.
    pub(crate) fn new() -> io::Result<Self> {
        let folder = TempDir::new()?;
        let runs = Some(run(folder.path())?);
        let mut database = Self { runs, folder };
        database.ask(CLOCK)?;
        Ok(database)
    }

    /// Sends messages, and returns the replies.
    pub(crate) fn send(&mut self, messages: &[u8]) -> io::Result<Vec<u8>> {
        let runs = self.runs.as_mut().ok_or_else(|| failed("PostgreSQL does not run"))?;
        runs.exec_protocol_raw(messages, ExecProtocolOptions::default())
            .map_err(|error| failed(format!("{error:#}")))
    }

    /// Runs statements, and returns the rows of all as texts.
    pub(crate) fn ask(&mut self, sql: &str) -> io::Result<Vec<Vec<String>>> {
        let reply = self.send(&query(sql))?;
        let mut rows = Vec::new();
        for frame in frames(&reply) {
            match frame.kind {
                b'D' => rows.push(cells(frame.body)),
                b'E' => {
                    let fields: Vec<_> = read_texts(frame.body).collect();
                    return Err(failed(format!("{sql}: {}", fields.join(" "))));
                }
                _ => {}
            }
        }
        Ok(rows)
    }

    /// Copies the files that it would have after a crash.
    pub(crate) fn copy(&self) -> io::Result<TempDir> {
        let folder = TempDir::new()?;
        copy(self.folder.path(), folder.path())?;
        Ok(folder)
    }

    /// Ends it, and starts it with other files.
    pub(crate) fn start_from(&mut self, folder: TempDir) -> io::Result<()> {
        let former = std::mem::replace(&mut self.folder, folder);
        // Its end writes to its folder.
        drop(self.runs.take());
        drop(former);
        self.runs = Some(run(self.folder.path())?);
        Ok(())
    }
}

/// Reads the values of a row.
fn cells(mut body: &[u8]) -> Vec<String> {
    let mut cells = Vec::new();
    body = body.get(2..).unwrap_or_default();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or_default();
        let (cell, rest) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        cells.push(String::from_utf8_lossy(cell).into_owned());
        body = rest;
    }
    cells
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy(&entry.path(), &target)?,
            kind if kind.is_file() => {
                std::fs::copy(entry.path(), target)?;
            }
            _ => {}
        }
    }
    Ok(())
}
