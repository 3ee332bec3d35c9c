//! Troubles of a database.

use std::time::Duration;

use distlock_testkit::Result;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Connection, Database,
    server::done,
    words::{Tables, within},
};
use crate::fault::Trouble;

/// The time limit of a statement.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// By how much clocks are set.
const HOUR: i64 = 3600;

/// Makes a trouble for `time`, in the tables of this namespace.
pub(crate) async fn strike(
    database: &dyn Database,
    trouble: Trouble,
    namespace: &str,
    time: Duration,
) -> Result<()> {
    let (over, one) = (Instant::now() + time, database.one());
    match trouble {
        Trouble::ReadOnly if let Some(tables) = database.setup().words.tables() => {
            let [begin, end] = tables.read_only;
            done(|| all(database, one, begin)).await?;
            sleep(time).await;
            done(|| all(database, one, end)).await
        }
        Trouble::LockWait => {
            let mut operator = done(|| lock(database, one, namespace)).await?;
            sleep(time).await;
            // Otherwise it ends with its connection.
            let _ = timeout(TIME_LIMIT, operator.ask("ROLLBACK")).await;
            Ok(())
        }
        Trouble::Deadlocks => {
            let rows = done(|| rows(database, one, namespace)).await?;
            let clash = || meddle(database, one, &rows, "ROLLBACK", over);
            tokio::join!(clash(), clash(), clash(), clash());
            Ok(())
        }
        Trouble::DiskFull => fill(database, one, time).await,
        Trouble::Clock => {
            let (jump, some) = (if fastrand::bool() { HOUR } else { -HOUR }, database.some());
            let set = async |seconds| {
                for server in &some {
                    done(|| database.set_clock(*server, seconds)).await?;
                }
                Ok(())
            };
            set(jump).await?;
            sleep(time).await;
            set(0).await
        }
        Trouble::Sever => {
            while Instant::now() < over {
                done(|| database.sever()).await?;
                sleep(time.mul_f64(fastrand::f64() / 4.0)).await;
            }
            Ok(())
        }
        Trouble::Promotion => database.promote(time).await,
        Trouble::Conflicts => {
            let (queues, table) =
                (done(|| queues(database, one, namespace)).await?, tables(database)?.queues);
            // All joins write to these rows. Nothing that matters changes.
            let write =
                |queue| format!("UPDATE {table} SET used = used + 1 WHERE queue = '{queue}'");
            let writes: Vec<_> = queues.iter().map(write).collect();
            let write = |server| meddle(database, server, &writes, "COMMIT", over);
            tokio::join!(write(0), write(1), write(2));
            Ok(())
        }
        Trouble::ReadOnly
        | Trouble::ClientPause
        | Trouble::Busy
        | Trouble::ScriptFlush
        | Trouble::MemoryFull
        | Trouble::Buffers
        | Trouble::Demotion
        | Trouble::Reconnects
        | Trouble::Backup
        | Trouble::Fsync
        | Trouble::DeadEntries
        | Trouble::Migration
        | Trouble::Failover => database.strike(trouble, time).await,
    }
}

fn tables(database: &dyn Database) -> Result<&Tables> {
    Ok(database.setup().words.tables().ok_or("there are no tables")?)
}

/// Runs the statements one after the other.
async fn all(database: &dyn Database, one: usize, statements: &[&str]) -> Result<()> {
    let mut operator = database.dial(one).await?;
    for statement in statements {
        operator.ask(statement).await?;
    }
    Ok(())
}

/// Returns statements that lock some of the rows that clients need.
fn some_rows(words: &Tables, namespace: &str) -> Vec<String> {
    let Some(locking) = words.locking else { return Vec::new() };
    let mut all = Vec::new();
    for table in [words.queues, words.entries].into_iter().chain(words.alone) {
        all.push(format!("SELECT 1 FROM {table} WHERE {}{locking}", within(namespace)));
    }
    all.push(format!("SELECT 1 FROM {}{locking}", words.sessions));
    all.push(format!("SELECT 1 FROM {} WHERE dir >= '{namespace}'{locking}", words.data));
    match fastrand::usize(..=all.len()) {
        one if one < all.len() => vec![all.swap_remove(one)],
        _ => all,
    }
}

/// Starts an operator's transaction that locks rows and stays open.
async fn lock(database: &dyn Database, one: usize, namespace: &str) -> Result<Box<dyn Connection>> {
    let (words, mut operator) = (tables(database)?, database.dial(one).await?);
    operator.ask(words.begin).await?;
    for statement in some_rows(words, namespace) {
        operator.ask(&statement).await?;
    }
    Ok(operator)
}

/// Returns statements that lock one row each.
async fn rows(database: &dyn Database, one: usize, namespace: &str) -> Result<Vec<String>> {
    let (words, queues) = (tables(database)?, queues(database, one, namespace).await?);
    let locking = words.locking.ok_or("the database has no row locks")?;
    let mut operator = database.dial(one).await?;
    let sessions = operator.ask(&format!("SELECT id FROM {}", words.sessions)).await?;
    let row = |table: &str, column: &str, row: &str| {
        format!("SELECT 1 FROM {table} WHERE {column} = '{row}'{locking}")
    };
    let queues = queues.iter().map(|queue| row(words.queues, "queue", queue));
    Ok(queues.chain(sessions.iter().map(|id| row(words.sessions, "id", &id.concat()))).collect())
}

/// Returns the existing queues.
async fn queues(database: &dyn Database, one: usize, namespace: &str) -> Result<Vec<String>> {
    let (queues, within) = (tables(database)?.queues, within(namespace));
    let sql = format!("SELECT queue FROM {queues} WHERE {within}");
    let rows = database.dial(one).await?.ask(&sql).await?;
    Ok(rows.into_iter().map(|row| row.concat()).collect())
}

/// Runs transactions of an operator with two of these statements, in either order.
async fn meddle(
    database: &dyn Database,
    server: usize,
    statements: &[String],
    end: &str,
    over: Instant,
) {
    while Instant::now() < over {
        let meddling = async {
            let mut operator = database.dial(server).await?;
            while Instant::now() < over {
                operator.ask(tables(database)?.begin).await?;
                for statement in fastrand::choose_multiple(statements, 2) {
                    operator.ask(statement).await?;
                    sleep(Duration::from_millis(fastrand::u64(..20))).await;
                }
                operator.ask(end).await?;
            }
            Result::Ok(())
        };
        // A transaction may fail because of others. Then it is repeated.
        let _ = timeout(TIME_LIMIT * 3, meddling).await;
    }
}

/// Fills the disk for `time`. The server may stop because of it.
async fn fill(database: &dyn Database, one: usize, time: Duration) -> Result<()> {
    let [before, during] = database.setup().words.tables().map_or([&[][..], &[]], |it| it.room);
    // The server may accept no connections afterwards.
    let mut operator = done(|| database.dial(one)).await?;
    for statement in before {
        let _ = timeout(TIME_LIMIT, operator.ask(statement)).await;
    }
    done(|| database.fill(one)).await?;
    if fastrand::bool() {
        for statement in during {
            let _ = timeout(TIME_LIMIT, operator.ask(statement)).await;
        }
    }
    sleep(time).await;
    // The server may stop now because of the lack of space a moment ago.
    let again = || async {
        database.free(one).await?;
        database.dial(one).await.map(drop)
    };
    done(again).await
}

#[cfg(test)]
mod tests {
    use distlock_testkit::store::Store;

    use super::*;
    use crate::database::open;

    async fn database() -> Box<dyn Database> {
        let database = open(Store::Sqlite).await.expect("a file");
        let url = database.setup().around.concat();
        let first = distlock::Client::connect(url).await.expect("the client creates the tables");
        first.close().await.expect("closed");
        database
    }

    /// Returns `true` if a row can be written.
    async fn takes(database: &dyn Database, size: usize) -> bool {
        let mut operator = database.dial(0).await.expect("the file opens");
        let write =
            database.setup().words.insert("/ns", &fastrand::u64(..).to_string(), &"x".repeat(size));
        operator.ask(&write).await.is_ok()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lock_wait_blocks_writes_until_its_end() {
        let database = database().await;
        assert!(takes(&*database, 1).await);
        let time = Duration::from_secs(2);
        let (struck, refused) =
            tokio::join!(strike(&*database, Trouble::LockWait, "/ns", time), async {
                sleep(time / 4).await;
                !takes(&*database, 1).await
            });
        struck.expect("the trouble ended");
        assert!(refused && takes(&*database, 1).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_full_disk_takes_nothing_until_there_is_room() {
        let database = database().await;
        let time = Duration::from_secs(1);
        let (struck, refused) =
            tokio::join!(strike(&*database, Trouble::DiskFull, "/ns", time), async {
                sleep(time / 2).await;
                !takes(&*database, 100_000).await
            });
        match struck {
            Ok(()) => assert!(refused),
            // Only root can.
            Err(error) => assert!(error.to_string().contains("only root"), "{error}"),
        }
        assert!(takes(&*database, 100_000).await);
    }
}
