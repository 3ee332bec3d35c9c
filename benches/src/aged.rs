//! The cost of a lock on a database with a long history: renewals under an open snapshot, one name
//! under an open snapshot, and names that were used once.

use std::time::{Duration, Instant};

use distlock::{Client, Mutex};
use tokio::time::sleep;

use crate::{
    Result,
    args::Bench,
    backend::{Backend, url_of},
    sql::Connection,
};

/// One hour of 100 clients.
const RENEWALS: usize = 108_000;
const PAIRS: usize = 100_000;
/// How many renewals or pairs are timed.
const TIMED: usize = 3_000;
/// How many connection attempts are timed; the median counts.
const CONNECTS: usize = 9;
const MINUTE: Duration = Duration::from_secs(60);

/// The statements of one database.
struct Words {
    snapshot: &'static str,
    session: &'static str,
    renew: &'static str,
    /// Inserts rows of names that were used once, some minutes ago.
    names: fn(u64) -> String,
    rows: &'static str,
}

const POSTGRES: Words = Words {
    snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM distlock.sessions",
    session: "SELECT max(id) FROM distlock.sessions WHERE id <> 0",
    renew: "UPDATE distlock.sessions SET expires = now() + ttl, \
            beat = (pg_current_wal_insert_lsn() - '0/0')::bigint WHERE id = ",
    names: |count| {
        format!(
            "INSERT INTO distlock.queues (queue, number, since) \
             SELECT '/old/' || md5(n::text), n, now() - interval '5 minutes' \
             FROM generate_series(1, {count}) AS n"
        )
    },
    rows: "SELECT count(*) FROM distlock.queues",
};

const MYSQL: Words = Words {
    snapshot: "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    session: "SELECT MAX(id) FROM distlock_sessions WHERE id <> 0",
    renew: "UPDATE distlock_sessions SET expires = ttl + \
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), \
            beat = (UUID_SHORT() & 72057594037927935) WHERE id = ",
    names: |count| {
        format!(
            "INSERT INTO distlock_alone (queue, epoch, number, version, since) \
             SELECT CONCAT('/old/', MD5(seq)), 1, 2 * seq, 1, \
             TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 300000000 \
             FROM seq_1_to_{count}"
        )
    },
    rows: "SELECT COUNT(*) FROM distlock_alone",
};

/// Prints the results for each database, with this number of names.
pub(crate) async fn look(bench: &Bench, names: u64) -> Result<bool> {
    println!("| store | | first | last | last ÷ first |");
    println!("|---|---|---:|---:|---:|");
    for backend in &bench.backends {
        let words = match backend {
            Backend::Postgres => &POSTGRES,
            Backend::Mysql => &MYSQL,
            _ => return Err("only PostgreSQL and MySQL are measured".into()),
        };
        let servers = bench.single(*backend);
        let aged = Aged { backend: *backend, url: url_of(*backend, servers), words };
        let connection = Connection::open(*backend, servers).await?;
        let snapshot = Connection::open(*backend, servers).await?;
        aged.renewals(&connection, &snapshot).await?;
        aged.pairs(&snapshot).await?;
        aged.names(&connection, names).await?;
    }
    Ok(true)
}

struct Aged {
    backend: Backend,
    url: String,
    words: &'static Words,
}

impl Aged {
    fn line(&self, what: &str, first: f64, last: f64) {
        let title = self.backend.title();
        println!("| {title} | {what} | {first:.3} | {last:.3} | {:.2} |", last / first);
    }

    async fn renewals(&self, connection: &Connection, snapshot: &Connection) -> Result<()> {
        let client = Client::connect(&*self.url).await?;
        let mutex = client.mutex("renewed");
        pairs(&mutex, TIMED).await?;
        let fresh = pairs(&mutex, TIMED).await?;
        let session = connection.number(self.words.session).await?;
        let renew = format!("{}{session}", self.words.renew);
        snapshot.write(self.words.snapshot).await?;
        let first = renewals(connection, &renew, TIMED).await?;
        renewals(connection, &renew, RENEWALS - 2 * TIMED).await?;
        let last = renewals(connection, &renew, TIMED).await?;
        let aged = pairs(&mutex, TIMED).await?;
        snapshot.write("ROLLBACK").await?;
        self.line("a renewal under a snapshot, after 108,000, ms", first, last);
        self.line("a pair after that, under the snapshot, ms", fresh, aged);
        Ok(client.close().await?)
    }

    async fn pairs(&self, snapshot: &Connection) -> Result<()> {
        let client = Client::connect(&*self.url).await?;
        let mutex = client.mutex("used again and again");
        pairs(&mutex, TIMED).await?;
        snapshot.write(self.words.snapshot).await?;
        let first = pairs(&mutex, TIMED).await?;
        pairs(&mutex, PAIRS - 2 * TIMED).await?;
        let last = pairs(&mutex, TIMED).await?;
        snapshot.write("ROLLBACK").await?;
        self.line("a pair of one name under a snapshot, after 100,000, ms", first, last);
        Ok(client.close().await?)
    }

    async fn names(&self, connection: &Connection, names: u64) -> Result<()> {
        let fresh = self.connect().await?;
        connection.write(&(self.words.names)(names)).await?;
        let began = Instant::now();
        let (one, other) = tokio::join!(self.connect(), self.connect());
        let aged = one?.max(other?);
        self.line(&format!("to connect with {names} names, two at once, ms"), fresh, aged);
        let clients = [Client::connect(&*self.url).await?, Client::connect(&*self.url).await?];
        sleep(MINUTE.saturating_sub(began.elapsed())).await;
        let rows = connection.number(self.words.rows).await?;
        self.line("rows of the names a minute later", names as f64, rows);
        while connection.number(self.words.rows).await? > 1_000.0 {
            sleep(Duration::from_secs(1)).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        self.line("seconds until 1,000 rows are left", 60.0, seconds);
        for client in clients {
            client.close().await?;
        }
        Ok(())
    }

    /// The median in milliseconds.
    async fn connect(&self) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..CONNECTS {
            let began = Instant::now();
            let client = Client::connect(&*self.url).await?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            client.close().await?;
        }
        times.sort_by(f64::total_cmp);
        Ok(times[CONNECTS / 2])
    }
}

/// Milliseconds per pair.
async fn pairs(mutex: &Mutex, count: usize) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..count {
        mutex.lock().await?.unlock().await?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / count as f64)
}

async fn renewals(connection: &Connection, renew: &str, count: usize) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..count {
        connection.write(renew).await?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / count as f64)
}
