//! The files that this process has open. Each path has one thread, whatever the number of clients.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use super::{
    error::{Failure, is_busy, undone},
    file::{self, Identity},
    job::{Job, Request},
    requests::{Kind, Requests},
    schema,
    tables::Tables,
    worker::{Sign, Worker, refuse},
};
use crate::{
    backend::{Result, StoreError},
    runtime::{
        boot,
        clock::{self, timeout},
        executor::spawn_thread,
        mutex::Mutex,
        process::FirstUse,
        yield_now,
    },
};

const OPENING: &str = "opening the file";

/// The size in bytes to which a large WAL is truncated. It is twice the size that SQLite allows by
/// itself.
const LARGEST_WAL: i64 = 8 << 20;

/// The pause between attempts to open a file that is in use.
const OCCUPIED: Duration = Duration::from_millis(20);

/// A file that is open in this process. Its thread ends with the last handle.
#[derive(Debug)]
pub(super) struct OpenFile {
    jobs: Sender<Box<dyn Job>>,
    pub(super) sign: Arc<Sign>,
}

/// The files that this process has open, by their absolute paths. All clients of a file share one
/// connection. They need only one query for other processes' writes, and one commit makes all of
/// their writes.
static OPEN_FILES: Mutex<Option<HashMap<PathBuf, Weak<OpenFile>>>> = Mutex::new(None);

/// Detects a fork. SQLite keeps its file locks by process, and does not check whether it still runs
/// in the same process. The child of a fork would take its parent's locks for its own
/// (<https://www.sqlite.org/howtocorrupt.html>, "Carrying an open database across a fork").
static OPENED: FirstUse = FirstUse::new();

/// Returns the numbers of this process's requests to a file.
pub(crate) fn requests(path: &Path) -> Option<Requests> {
    let path = std::path::absolute(path).ok()?;
    let open = OPEN_FILES.lock().as_ref()?.get(&path)?.upgrade()?;
    Some(open.sign.counters.read())
}

impl OpenFile {
    /// Returns the open file, or a new one, which its thread opens.
    pub(super) fn to(path: &Path, patience: Duration) -> Result<Arc<Self>> {
        let path = file::check(path)?;
        if !OPENED.is_ours() {
            let source = "the process was forked after it had opened a database, and SQLite cannot \
                          be used in the child: connect only after the fork, or start another \
                          program in the child";
            return Err(StoreError::Fatal { operation: OPENING, source: source.into() });
        }
        let mut files = OPEN_FILES.lock();
        let files = files.get_or_insert_default();
        let known = files.get(&path).and_then(Weak::upgrade);
        if let Some(open) = known.filter(|open| open.lives()) {
            return Ok(open);
        }
        files.retain(|_, open| open.strong_count() > 0);
        let (jobs, inbox) = mpsc::channel();
        let sign = Arc::<Sign>::default();
        let (at, shared) = (path.clone(), Arc::clone(&sign));
        spawn_thread("distlock-sqlite", move || serve(at, patience, inbox, shared))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        let open = Arc::new(Self { jobs, sign });
        files.insert(path, Arc::downgrade(&open));
        Ok(open)
    }

    /// Returns `true` if the file could be opened and is the one at the path, as far as is known. A
    /// file that was missing for longer than a session lives is not awaited: no session holds a
    /// lock in it.
    fn lives(&self) -> bool {
        let (since, longest) = *self.sign.missing.lock();
        if since.is_some_and(|since| clock::now().saturating_sub(since) > longest) {
            self.sign.replaced.send_replace(true);
        }
        self.sign.refused.lock().is_none() && !*self.sign.replaced.borrow()
    }

    /// Notes that a session with this TTL begins.
    pub(super) fn begins(&self, ttl: Duration) {
        let mut missing = self.sign.missing.lock();
        missing.1 = missing.1.max(ttl);
    }

    /// Runs work in one transaction.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: Kind,
        patience: Duration,
        work: impl FnOnce(&Tables<'_, '_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let (request, reply) = Request::new(operation, kind, patience, work);
        // An error drops the request, which the code below detects. If the thread has ended
        // although it had opened the file, sessions are no longer renewed.
        if self.jobs.send(Box::new(request)).is_err() && self.sign.refused.lock().is_none() {
            self.sign.replaced.send_replace(true);
        }
        // As with every store, the request is under way, and other tasks get a turn.
        yield_now().await;
        let answered = timeout(patience, reply.answer).await;
        let given_up = || reply.stage.give_up();
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) if given_up() => Err(match &*self.sign.refused.lock() {
                Some(refused) => StoreError::again(refused),
                None => StoreError::Unavailable("the SQLite file is no longer open".into()),
            }),
            Err(late) if given_up() => Err(StoreError::Unavailable(late.into())),
            Ok(Err(_)) => {
                let ended = "the thread that accesses the SQLite file has ended, so the outcome is \
                             unknown: check it before you try again";
                Err(StoreError::Unknown(ended.into()))
            }
            Err(late) => Err(StoreError::Unknown(late.into())),
        }
    }
}

/// Runs the file's thread.
fn serve(path: PathBuf, patience: Duration, inbox: Receiver<Box<dyn Job>>, sign: Arc<Sign>) {
    match open(&path, patience) {
        Ok((connection, identity, boot)) => {
            Worker::new((path, identity, boot), &connection, inbox, sign).run();
        }
        Err(error) => {
            let error = Arc::new(error);
            *sign.refused.lock() = Some(Arc::clone(&error));
            refuse(inbox.try_iter(), &error);
        }
    }
}

/// Opens the file, with its tables, and creates them if necessary. Returns the file's identity,
/// too.
fn open(path: &Path, patience: Duration) -> Result<(Connection, Identity, String)> {
    let boot = boot::id().map_err(|error| StoreError::Fatal {
        operation: "reading the boot ID",
        source: error.into(),
    })?;
    let until = clock::now() + patience;
    loop {
        match connect(path) {
            Ok((connection, identity)) => return Ok((connection, identity, boot)),
            Err(Failure::Sql(error)) if is_busy(&error) && clock::now() < until => {}
            Err(Failure::Sql(error)) => {
                let error = undone(OPENING, &error);
                return Err(named(path, error));
            }
            Err(Failure::Store(error)) => return Err(named(path, error)),
        }
        std::thread::sleep(OCCUPIED);
    }
}

/// Adds the file's path to an error.
fn named(path: &Path, error: StoreError) -> StoreError {
    let name = |source| format!("{}: {source}", path.display()).into();
    match error {
        StoreError::Unavailable(source) => StoreError::Unavailable(name(source)),
        StoreError::Denied(source) => StoreError::Denied(name(source)),
        StoreError::Fatal { operation, source } => {
            StoreError::Fatal { operation, source: name(source) }
        }
        error => error,
    }
}

fn connect(path: &Path) -> Result<(Connection, Identity), Failure> {
    let before = file::find(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    // A symbolic link may have led to a file that did not exist yet.
    if let Some(reason) = file::reason_to_refuse(path) {
        return Err(StoreError::Fatal { operation: OPENING, source: reason.into() }.into());
    }
    connection.busy_timeout(OCCUPIED)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0))?;
    if mode != "wal" {
        let reason = format!("its journal mode is `{mode}` and cannot be changed to WAL");
        return Err(StoreError::Fatal { operation: OPENING, source: reason.into() }.into());
    }
    // The tables are made with this level. Each later transaction sets its own (`Kind::access`).
    connection.pragma_update(None, "synchronous", "FULL")?;
    // SQLite truncates a WAL that a long reader has made to this size when it restarts the WAL.
    connection.pragma_update(None, "journal_size_limit", LARGEST_WAL)?;
    schema::make(&mut connection)?;
    // From now on the thread itself waits for other writers.
    connection.busy_timeout(Duration::ZERO)?;
    match (before, file::find(path)) {
        (before, Some(found)) if before.is_none_or(|before| before == found) => {
            Ok((connection, found))
        }
        _ => {
            let reason = "the file was replaced while it was being opened";
            Err(StoreError::Unavailable(reason.into()).into())
        }
    }
}
