//! The thread that has a file open, for all clients of the process that name it alike.
//!
//! SQLite blocks, so it is not asked by tasks: they send what they want done, and may go at any
//! moment. What has come meanwhile is done in one transaction, so that hundreds of callers wait for
//! one commit. The connection is the thread's own, as is the question whether others have written.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use rusqlite::{Connection, Error};

use super::{
    error::{Failure, in_commit, is_busy, undone},
    file::{Identity, find},
    job::Job,
    requests::{Counters, Kind},
    statements::Statements,
    tables::Tables,
    watches::Watches,
};
use crate::{
    backend::StoreError,
    lost::LostReason,
    runtime::{clock, jittered, mutex::Mutex},
};

/// How many requests one transaction does, at most: others wait for its end.
const TOGETHER: usize = 64;

/// The pause before asking again, while somebody else writes.
const OCCUPIED: Duration = Duration::from_micros(500);

const LOOKING: &str = "looking at the file";
const WRITING: &str = "writing to the file";

/// What the thread tells those who have sent it something, and may have come too late.
#[derive(Debug, Default)]
pub(super) struct Sign {
    /// There is another file at the path: what was in the first one is over.
    pub(super) replaced: tokio::sync::watch::Sender<bool>,
    /// Since when there is no file at the path, and how long the longest session lives.
    pub(super) missing: Mutex<(Option<Duration>, Duration)>,
    /// Why the file could not be opened.
    pub(super) refused: Mutex<Option<Arc<StoreError>>>,
    pub(super) counters: Counters,
}

pub(super) struct Worker<'c> {
    path: PathBuf,
    identity: Identity,
    boot: String,
    sql: Statements<'c>,
    inbox: Receiver<Box<dyn Job>>,
    sign: Arc<Sign>,
    watches: Watches,
    /// What SQLite said to the question whether others have written.
    version: i64,
}

impl<'c> Worker<'c> {
    pub(super) fn new(
        (path, identity, boot): (PathBuf, Identity, String),
        connection: &'c Connection,
        inbox: Receiver<Box<dyn Job>>,
        sign: Arc<Sign>,
    ) -> Self {
        let (sql, watches) = (Statements::new(connection), Watches::default());
        Self { path, identity, boot, sql, inbox, sign, watches, version: 0 }
    }

    /// Until nobody has anything to ask any more.
    pub(super) fn run(mut self) {
        loop {
            let next = match self.watches.pause() {
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(pause) => self.inbox.recv_timeout(pause),
            };
            let mut jobs = match next {
                Ok(job) => vec![job],
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return self.leave(),
            };
            jobs.extend(self.inbox.try_iter().take(TOGETHER - jobs.len()));
            if let Err(error) = self.still_there() {
                self.watches.lose(|| StoreError::again(&error));
                refuse(jobs, &error);
                continue;
            }
            let changed = !jobs.is_empty() && self.work(jobs);
            if self.watches.pause().is_some() {
                self.look(changed);
            }
        }
    }

    /// The last one who closes a file brings its WAL into it and deletes that, by its name: which
    /// may be the name of another file's by now.
    fn leave(self) {
        if self.still_there().is_err() {
            // An error: it is closed as SQLite will.
            let _ = self.sql.close_alone();
        }
    }

    /// Whether the file that is open is the one at its path. Those who open it now would get
    /// another one otherwise, and nothing that is found in this one holds for them.
    fn still_there(&self) -> Result<(), Arc<StoreError>> {
        let replaced = *self.sign.replaced.borrow();
        match find(&self.path) {
            Some(found) if found == self.identity && !replaced => {
                self.sign.missing.lock().0 = None;
                Ok(())
            }
            None if !replaced => {
                self.sign.missing.lock().0.get_or_insert_with(clock::now);
                let told = format!("{}: there is no file any more", self.path.display());
                Err(Arc::new(StoreError::Unavailable(told.into())))
            }
            _ => {
                self.sign.replaced.send_replace(true);
                Err(Arc::new(StoreError::SessionGone(LostReason::SessionExpired)))
            }
        }
    }

    /// Does these together. Tells whether somebody may wait for what was done.
    fn work(&mut self, mut jobs: Vec<Box<dyn Job>>) -> bool {
        let looks = jobs.iter().any(|job| job.kind() == Kind::Look);
        let mut writes = jobs.iter().any(|job| job.kind().writes());
        loop {
            if let Err(error) = self.begin(writes, &mut jobs) {
                refuse(jobs, &error);
                return false;
            }
            if jobs.is_empty() {
                return false;
            }
            if writes || !looks || !self.has_dead() {
                break;
            }
            // They are to be put away first.
            self.undo();
            writes = true;
        }
        let tables = Tables::new(&self.sql, &self.boot, writes);
        let done = run(&tables, &mut jobs, &self.sign.counters);
        let (changed, watched) = (tables.changed.get(), tables.watched.take());
        let done = done.and_then(|()| self.commit(writes));
        match done {
            Ok(()) => self.watches.add(watched),
            Err(_) => self.undo(),
        }
        for job in jobs {
            job.tell(done.as_ref().copied());
        }
        done.is_ok() && changed
    }

    /// Begins a transaction, as soon as nobody else writes. Those whose time is up meanwhile are
    /// told, and are not among these any more.
    fn begin(&self, writes: bool, jobs: &mut Vec<Box<dyn Job>>) -> Result<(), Arc<StoreError>> {
        loop {
            match self.try_begin(writes) {
                Ok(()) => return Ok(()),
                Err(error) if is_busy(&error) => {}
                Err(error) => return Err(Arc::new(undone(WRITING, &error))),
            }
            let told = Arc::new(StoreError::Unavailable("somebody else writes to the file".into()));
            refuse(jobs.extract_if(.., |job| job.is_over()), &told);
            if jobs.is_empty() {
                return Ok(());
            }
            std::thread::sleep(jittered(OCCUPIED));
        }
    }

    fn try_begin(&self, writes: bool) -> Result<(), Error> {
        let sql = if writes { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.sql.run(sql, []).map(drop)
    }

    fn has_dead(&self) -> bool {
        let tables = Tables::new(&self.sql, &self.boot, false);
        // An error is met again by those who ask.
        tables.is_anybody_over(0).unwrap_or(false)
    }

    /// What is not committed is undone.
    fn commit(&self, writes: bool) -> Result<(), Arc<StoreError>> {
        let committed = self.sql.run("COMMIT", []);
        if committed.is_err() {
            self.undo();
        } else if writes {
            self.sign.counters.committed();
        }
        committed.map(drop).map_err(|error| Arc::new(in_commit(WRITING, &error)))
    }

    fn undo(&self) {
        if !self.sql.is_idle() {
            // SQLite has undone it itself, if that fails.
            let _ = self.sql.run("ROLLBACK", []);
        }
    }

    /// Looks at what is waited for, if it may have changed.
    fn look(&mut self, changed: bool) {
        let asked = self.sql.one("PRAGMA data_version", [], |row| row.get(0));
        // Somebody repairs the file: to be asked again.
        let Ok(version) = asked else { return };
        let due = self.watches.is_due();
        if !changed && !due && version == self.version {
            return;
        }
        let looked = self.try_look(due);
        self.undo();
        match looked {
            Ok(told) => {
                self.version = version;
                self.sign.counters.told(told);
            }
            Err(Failure::Sql(error)) if is_busy(&error) => {}
            Err(Failure::Sql(error)) => self.watches.lose(|| undone(LOOKING, &error)),
            Err(Failure::Told(error)) => {
                let error = Arc::new(error);
                self.watches.lose(|| StoreError::again(&error));
            }
        }
    }

    /// `due`: a session may be over that somebody waits for. Then it is put away.
    fn try_look(&mut self, due: bool) -> Result<u64, Failure> {
        self.try_begin(false)?;
        let sweeps = due && self.has_dead();
        if sweeps {
            self.undo();
            self.try_begin(true)?;
        }
        let tables = Tables::new(&self.sql, &self.boot, sweeps);
        tables.sweep(0)?;
        if sweeps {
            self.commit(true).map_err(|error| StoreError::again(&error))?;
            self.try_begin(false)?;
        }
        Ok(self.watches.look(&Tables::new(&self.sql, &self.boot, false))?)
    }
}

pub(super) fn refuse(jobs: impl IntoIterator<Item = Box<dyn Job>>, error: &Arc<StoreError>) {
    jobs.into_iter().for_each(|job| job.tell(Err(error)));
}

/// Does what is asked within one transaction; an error of one undoes that one alone, unless SQLite
/// has undone the others, too.
fn run(
    tables: &Tables<'_, '_>,
    jobs: &mut [Box<dyn Job>],
    counters: &Counters,
) -> Result<(), Arc<StoreError>> {
    let lost = |error: &Error| Arc::new(undone(WRITING, error));
    for job in jobs {
        let told = tables.watched.borrow().len();
        tables.sql.run("SAVEPOINT one", []).map_err(|error| lost(&error))?;
        counters.asked(job.kind());
        let ran = job.run(tables);
        if let Err(error) = ran {
            tables.watched.borrow_mut().truncate(told);
            if tables.sql.is_idle() {
                return Err(lost(&error));
            }
            tables.sql.run("ROLLBACK TO one", []).map_err(|error| lost(&error))?;
        }
        tables.sql.run("RELEASE one", []).map_err(|error| lost(&error))?;
    }
    Ok(())
}
