//! Locks on a database without a library: the peers of the SQL stores.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    Result,
    backend::{Backend, url_of},
    sql::{Connection, Done},
    statements,
    task::Subject,
};

/// ShedLock's `lockAtMostFor`; the server's `GET_LOCK` gives up after as many seconds.
const AT_MOST: u32 = 3600;

/// The requests of this process to tables with a unique key, and to several Redis servers.
/// PostgreSQL does not count failed statements, and SQLite counts none.
static ASKED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn asked() -> u64 {
    ASKED.load(Relaxed)
}

pub(crate) fn ask(count: usize) {
    ASKED.fetch_add(count as u64, Relaxed);
}

/// One contender's lock, on its own connection.
pub(crate) struct Recipe {
    backend: Backend,
    kind: Kind,
    /// Between two attempts of a client that cannot be notified.
    pause: Duration,
    connection: Connection,
    name: String,
    owner: String,
}

enum Kind {
    /// The server's own: `pg_advisory_lock`, `GET_LOCK`. It lasts as long as the connection.
    Server,
    /// A row that only one client can insert. It stays if its owner dies.
    UniqueKey,
    /// ShedLock's statements, with the server's clock. The row stays: every lock after the first
    /// one updates it.
    ShedLock { known: bool },
}

impl Recipe {
    pub(crate) fn new(
        backend: Backend,
        subject: Subject,
        connection: Connection,
        name: String,
    ) -> Result<Self> {
        let kind = match subject {
            Subject::Peer => Kind::Server,
            Subject::UniqueKey | Subject::Often => Kind::UniqueKey,
            Subject::ShedLock => Kind::ShedLock { known: false },
            _ => return Err("this is no recipe".into()),
        };
        let owner = format!("{:016x}", fastrand::u64(..));
        let pause = subject.pause().unwrap_or_default();
        Ok(Self { backend, kind, pause, connection, name, owner })
    }

    pub(crate) async fn lock(&mut self) -> Result<()> {
        if let Kind::Server = self.kind {
            let (lock, _) = server_lock(self.backend);
            return match self.connection.call(&lock, &[&self.name]).await? {
                true => Ok(()),
                false => Err("the server did not grant the lock".into()),
            };
        }
        while !self.try_lock().await? {
            sleep(self.pause).await;
        }
        Ok(())
    }

    async fn try_lock(&mut self) -> Result<bool> {
        let Self { backend, kind, connection, name, owner, .. } = self;
        let Kind::ShedLock { known } = kind else {
            let insert = "INSERT INTO bench_unique (name, owner) VALUES (?, ?)";
            ask(1);
            return Ok(connection.execute(insert, &[name, owner]).await? == Done::Rows(1));
        };
        let (now, until) = (now(*backend), until(*backend));
        if !*known {
            *known = true;
            let insert = format!(
                "INSERT INTO bench_shedlock (name, lock_until, locked_at, locked_by) \
                 VALUES (?, {until}, {now}, ?)"
            );
            if connection.execute(&insert, &[name, owner]).await? == Done::Rows(1) {
                return Ok(true);
            }
        }
        let update = format!(
            "UPDATE bench_shedlock SET lock_until = {until}, locked_at = {now}, \
             locked_by = ? WHERE name = ? AND lock_until <= {now}"
        );
        Ok(connection.execute(&update, &[owner, name]).await? == Done::Rows(1))
    }

    pub(crate) async fn unlock(&mut self) -> Result<()> {
        let Self { backend, kind, connection, name, owner, .. } = self;
        let unlocked = match kind {
            Kind::Server => connection.call(&server_lock(*backend).1, &[name]).await?,
            Kind::UniqueKey => {
                let delete = "DELETE FROM bench_unique WHERE name = ? AND owner = ?";
                ask(1);
                persist(connection, delete, &[name, owner]).await? == Done::Rows(1)
            }
            Kind::ShedLock { .. } => {
                let update = format!(
                    "UPDATE bench_shedlock SET lock_until = {} WHERE name = ? AND locked_by = ?",
                    now(*backend)
                );
                persist(connection, &update, &[name, owner]).await? == Done::Rows(1)
            }
        };
        if unlocked { Ok(()) } else { Err("the lock was not held".into()) }
    }
}

/// The statements of the server's own lock.
fn server_lock(backend: Backend) -> (String, String) {
    match backend {
        Backend::Postgres => {
            // A lock is named by a number.
            let call = |function| format!("SELECT {function}(hashtextextended(?, 0))");
            (call("pg_advisory_lock"), call("pg_advisory_unlock"))
        }
        _ => (format!("SELECT GET_LOCK(?, {AT_MOST})"), "SELECT RELEASE_LOCK(?)".to_owned()),
    }
}

/// Repeats a statement that was rolled back because of a conflict. (InnoDB rolls back deletions of
/// unique keys that many clients try to insert.)
async fn persist(connection: &Connection, sql: &str, values: &[&str]) -> Result<Done> {
    loop {
        match connection.execute(sql, values).await? {
            Done::Deadlock => {}
            done => return Ok(done),
        }
    }
}

/// The server's clock.
fn now(backend: Backend) -> &'static str {
    match backend {
        Backend::Postgres => "timezone('utc', CURRENT_TIMESTAMP)",
        _ => "UTC_TIMESTAMP(3)",
    }
}

fn until(backend: Backend) -> String {
    match backend {
        Backend::Postgres => format!("{} + interval '{AT_MOST} seconds'", now(backend)),
        _ => format!("TIMESTAMPADD(SECOND, {AT_MOST}, {})", now(backend)),
    }
}

/// Creates the tables of the recipes, of the floor and of the library, and what the counters need.
pub(crate) async fn prepare(backend: Backend, servers: &[String]) -> Result<()> {
    let connection = Connection::open(backend, servers).await?;
    // As in ShedLock's manual.
    let time = if backend == Backend::Postgres { "timestamp" } else { "timestamp(3)" };
    for table in [
        "bench_floor (id varchar(200) PRIMARY KEY)".to_owned(),
        "bench_unique (name varchar(200) PRIMARY KEY, owner varchar(64) NOT NULL)".to_owned(),
        format!(
            "bench_shedlock (name varchar(200) PRIMARY KEY, lock_until {time} NOT NULL, \
             locked_at {time} NOT NULL, locked_by varchar(255) NOT NULL)"
        ),
    ] {
        connection.write(&format!("CREATE TABLE IF NOT EXISTS {table}")).await?;
    }
    // The library creates its own.
    distlock::Client::connect(url_of(backend, servers)).await?.close().await?;
    statements::prepare(backend, &connection).await
}
