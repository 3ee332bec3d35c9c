//! The thread that has a file open, for all clients of the process with that path.
//!
//! SQLite blocks, so tasks do not call it. They send their requests to this thread, and may drop
//! them at any time. Requests that arrive while the thread is busy share one transaction, so that
//! hundreds of callers wait for one commit. The thread owns the connection, and alone queries it
//! for other processes' writes.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc::Receiver},
    time::Duration,
};

use rusqlite::{Connection, Error};

use super::{
    block::Block,
    error::{Failure, in_commit, is_busy, undone},
    file::{Identity, find},
    inbox::Inbox,
    job::Job,
    requests::{Access, Counters, Kind},
    statements::Statements,
    tables::Tables,
    watches::Watches,
};
use crate::{
    backend::StoreError,
    lost::LostReason,
    runtime::{clock, jittered, mutex::Mutex},
};

/// The pause before another attempt while another connection writes.
const OCCUPIED: Duration = Duration::from_micros(500);

const LOOKING: &str = "reading the file";
const WRITING: &str = "writing to the file";

/// The state of the thread, for callers whose requests may be too late.
#[derive(Debug, Default)]
pub(super) struct Sign {
    /// Another file is at the path. The sessions in the first one are over.
    pub(super) replaced: tokio::sync::watch::Sender<bool>,
    /// The time since when the path has no file, and the longest TTL of a session.
    pub(super) missing: Mutex<(Option<Duration>, Duration)>,
    /// The error that opening the file has returned.
    pub(super) refused: Mutex<Option<Arc<StoreError>>>,
    pub(super) counters: Counters,
}

pub(super) struct Worker<'c> {
    path: PathBuf,
    identity: Identity,
    boot: String,
    sql: Statements<'c>,
    block: Block,
    inbox: Inbox,
    sign: Arc<Sign>,
    watches: Watches,
    /// The last `data_version`, which changes when another connection commits.
    version: i64,
    /// This connection has committed since the watches were checked.
    changed: bool,
}

impl<'c> Worker<'c> {
    pub(super) fn new(
        (path, identity, boot): (PathBuf, Identity, String),
        connection: &'c Connection,
        inbox: Receiver<Box<dyn Job>>,
        sign: Arc<Sign>,
    ) -> Self {
        let sql = Statements::new(connection);
        let (block, watches, inbox) = (Block::default(), Watches::default(), Inbox::new(inbox));
        Self { path, identity, boot, sql, block, inbox, sign, watches, version: 0, changed: false }
    }

    /// Runs until no handle is left.
    pub(super) fn run(mut self) {
        loop {
            let pause = self.watches.pause();
            let Ok(jobs) = self.inbox.next(pause) else { return self.leave() };
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

    /// Closes the file. The last connection moves the WAL into the file and deletes the WAL by its
    /// name, which may belong to another file by now.
    fn leave(self) {
        if self.still_there().is_err() {
            // After an error SQLite closes the file as usual.
            let _ = self.sql.close_alone();
        }
    }

    /// Checks that the open file is still the one at its path. Other processes that open the path
    /// would otherwise get another file, and the content of this one would not be valid for them.
    fn still_there(&self) -> Result<(), Arc<StoreError>> {
        let replaced = *self.sign.replaced.borrow();
        match find(&self.path) {
            Some(found) if found == self.identity && !replaced => {
                self.sign.missing.lock().0 = None;
                Ok(())
            }
            None if !replaced => {
                self.sign.missing.lock().0.get_or_insert_with(clock::now);
                let reason = format!(
                    "{}: the file no longer exists, or cannot be accessed",
                    self.path.display()
                );
                Err(Arc::new(StoreError::Unavailable(reason.into())))
            }
            _ => {
                self.sign.replaced.send_replace(true);
                Err(Arc::new(StoreError::SessionGone(LostReason::SessionExpired)))
            }
        }
    }

    /// Runs these requests together. Returns `true` if they changed something that a waiter may
    /// watch.
    fn work(&mut self, mut jobs: Vec<Box<dyn Job>>) -> bool {
        let kinds: Vec<_> = jobs.iter().map(|job| job.kind()).collect();
        let mut access = kinds.iter().map(|kind| kind.access()).max().unwrap_or(Access::Reads);
        loop {
            if let Err(error) = self.begin(access, &mut jobs) {
                refuse(jobs, &error);
                return false;
            }
            if jobs.is_empty() {
                return false;
            }
            let needed = self.needed(access, &kinds);
            if needed == access {
                break;
            }
            self.undo();
            access = needed;
        }
        let tables = self.tables(access);
        let done = run(&tables, &mut jobs, &self.sign.counters);
        let (changed, watched) = (tables.changed.get(), tables.watched.take());
        let done = done.and_then(|()| self.commit(access));
        match done {
            Ok(()) => self.watches.add(watched),
            Err(_) => self.undo(),
        }
        for job in jobs {
            job.reply(done.as_ref().copied());
        }
        done.is_ok() && changed
    }

    /// Begins a transaction as soon as no other connection writes. Requests whose time runs out
    /// before that fail, and are removed.
    fn begin(&self, access: Access, jobs: &mut Vec<Box<dyn Job>>) -> Result<(), Arc<StoreError>> {
        loop {
            match self.try_begin(access) {
                Ok(()) => return Ok(()),
                Err(error) if is_busy(&error) => {}
                Err(error) => return Err(Arc::new(undone(WRITING, &error))),
            }
            let reason = Arc::new(StoreError::Unavailable(
                "another connection is writing to the file".into(),
            ));
            refuse(jobs.extract_if(.., |job| job.is_over()), &reason);
            if jobs.is_empty() {
                return Ok(());
            }
            std::thread::sleep(jittered(OCCUPIED));
        }
    }

    fn try_begin(&self, access: Access) -> Result<(), Error> {
        let sql = match access {
            Access::Reads => "BEGIN",
            Access::Writes | Access::Flushes => {
                self.sql.flush(access == Access::Flushes)?;
                "BEGIN IMMEDIATE"
            }
        };
        self.sql.run(sql, []).map(drop)
    }

    /// Returns the access that the open transaction needs for all of these requests.
    fn needed(&self, access: Access, kinds: &[Kind]) -> Access {
        match access {
            // The dead sessions must be removed first.
            Access::Reads if kinds.contains(&Kind::Look) && self.has_dead() => Access::Writes,
            Access::Writes => {
                let numbers = kinds.iter().map(|kind| kind.numbers()).sum();
                let left = self.tables(access).are_left(numbers);
                // The requests that draw numbers will meet the error again.
                if left.unwrap_or(false) { access } else { Access::Flushes }
            }
            access => access,
        }
    }

    fn has_dead(&self) -> bool {
        // The requests will meet the error again.
        self.tables(Access::Reads).is_anybody_over(0).unwrap_or(false)
    }

    /// Returns the tables in the open transaction.
    fn tables(&self, access: Access) -> Tables<'_, 'c> {
        Tables::new(&self.sql, &self.boot, &self.block, access)
    }

    /// Commits the transaction, or rolls it back.
    fn commit(&self, access: Access) -> Result<(), Arc<StoreError>> {
        let committed = self.sql.run("COMMIT", []);
        if committed.is_err() {
            self.undo();
        } else if access > Access::Reads {
            self.sign.counters.committed(access);
            if access == Access::Flushes {
                self.block.confirm();
            }
        }
        committed.map(drop).map_err(|error| Arc::new(in_commit(WRITING, &error)))
    }

    fn undo(&self) {
        self.block.forget();
        if !self.sql.is_idle() {
            // If this fails, SQLite has rolled it back itself.
            let _ = self.sql.run("ROLLBACK", []);
        }
    }

    /// Checks the watches, if a change is possible.
    fn look(&mut self, changed: bool) {
        self.changed |= changed;
        let asked = self.sql.one("PRAGMA data_version", [], |row| row.get(0));
        // Another process repairs the file, so the query is repeated later.
        let Ok(version) = asked else { return };
        let due = self.watches.is_due();
        if !self.changed && !due && version == self.version {
            return;
        }
        let looked = self.try_look(due);
        self.undo();
        match looked {
            Ok(waiters) => {
                (self.version, self.changed) = (version, false);
                self.sign.counters.notified(waiters);
            }
            Err(Failure::Sql(error)) if is_busy(&error) => {}
            Err(Failure::Sql(error)) => self.watches.lose(|| undone(LOOKING, &error)),
            Err(Failure::Store(error)) => {
                let error = Arc::new(error);
                self.watches.lose(|| StoreError::again(&error));
            }
        }
    }

    /// `due`: a watched session may have expired. It is then removed.
    fn try_look(&mut self, due: bool) -> Result<u64, Failure> {
        self.try_begin(Access::Reads)?;
        if due && self.has_dead() {
            self.undo();
            self.try_begin(Access::Writes)?;
            self.tables(Access::Writes).sweep(0)?;
            self.commit(Access::Writes).map_err(|error| StoreError::again(&error))?;
            self.try_begin(Access::Reads)?;
        }
        let tables = Tables::new(&self.sql, &self.boot, &self.block, Access::Reads);
        Ok(self.watches.look(&tables)?)
    }
}

pub(super) fn refuse(jobs: impl IntoIterator<Item = Box<dyn Job>>, error: &Arc<StoreError>) {
    jobs.into_iter().for_each(|job| job.reply(Err(error)));
}

/// Runs requests within one transaction. An error of a request undoes only that request, unless
/// SQLite has rolled back the others, too.
fn run(
    tables: &Tables<'_, '_>,
    jobs: &mut [Box<dyn Job>],
    counters: &Counters,
) -> Result<(), Arc<StoreError>> {
    let lost = |error: &Error| Arc::new(undone(WRITING, error));
    for job in jobs {
        let watched = tables.watched.borrow().len();
        tables.sql.run("SAVEPOINT one", []).map_err(|error| lost(&error))?;
        counters.asked(job.kind());
        let ran = job.run(tables);
        if let Err(error) = ran {
            tables.watched.borrow_mut().truncate(watched);
            tables.block.forget();
            if tables.sql.is_idle() {
                return Err(lost(&error));
            }
            tables.sql.run("ROLLBACK TO one", []).map_err(|error| lost(&error))?;
        }
        tables.sql.run("RELEASE one", []).map_err(|error| lost(&error))?;
    }
    Ok(())
}
