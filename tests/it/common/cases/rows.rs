//! Rows that a user changes without a lock of distlock, by a version column or by row locks.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use distlock::optimistic::{NotUpdated, updated};
use tokio::{
    sync::Barrier,
    task::{JoinHandle, JoinSet},
};

use crate::common::{
    SOON,
    database::Database,
    sql::{Code, Reply, Sql},
    throughout, within,
};

/// The statements at the beginning of each block of the page.
const ACCOUNTS: &[&str] = &[
    "DROP TABLE IF EXISTS account",
    "CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(10), balance INT, version INT)",
    "INSERT INTO account VALUES (1, 'ann', 100, 0), (2, 'ben', 100, 0), (3, 'cyd', 100, 0)",
];

async fn accounts(url: &str) -> Sql {
    let mut sql = connect(url).await;
    for statement in ACCOUNTS {
        sql.ask(statement).await;
    }
    sql
}

/// Connects a user that waits for row locks, as servers do by default.
async fn connect(url: &str) -> Sql {
    let mut sql = Sql::connect(url).await;
    if url.starts_with("sqlite") {
        sql.ask("PRAGMA busy_timeout = 10000").await;
    }
    sql
}

const WRITERS: usize = 4;
const ROUNDS: usize = 20;

/// Each writer adds 1 in each round, after all of them have read. Returns the sum, and how often an
/// update was overtaken.
async fn add_up(url: &str, condition: &'static str) -> (usize, usize) {
    let mut operator = accounts(url).await;
    let barrier = Arc::new(Barrier::new(WRITERS));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (mut sql, barrier) = (connect(url).await, Arc::clone(&barrier));
        writers.spawn(async move {
            let mut overtaken = 0;
            for _ in 0..ROUNDS {
                let mut all_have_read = false;
                loop {
                    let balance = "SELECT balance FROM account WHERE id = 1";
                    let version = "SELECT version FROM account WHERE id = 1";
                    // The version is read first, so it is not later than the balance.
                    let version = sql.ask(version).await.rows.remove(0);
                    let balance: usize = sql.ask(balance).await.rows[0].parse().expect("a number");
                    if !std::mem::replace(&mut all_have_read, true) {
                        barrier.wait().await;
                    }
                    let (balance, condition) = (balance + 1, condition.replace("{}", &version));
                    let update = format!(
                        "UPDATE account SET balance = {balance}, version = version + 1 \
                         WHERE id = 1 {condition}"
                    );
                    match updated(sql.ask(&update).await.changed) {
                        Ok(()) => break,
                        Err(NotUpdated::Overtaken) => overtaken += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                // No writer starts to read while others write.
                barrier.wait().await;
            }
            overtaken
        });
    }
    let overtaken = within(SOON * 3, "all have written", writers.join_all()).await;
    let sum = operator.ask("SELECT balance FROM account WHERE id = 1").await.rows.remove(0);
    (sum.parse::<usize>().expect("a number") - 100, overtaken.iter().sum())
}

/// With the version in the condition no update is lost. Without it, most are.
pub(crate) async fn versions_lose_nothing(database: &impl Database) {
    let url = database.url();
    let (sum, overtaken) = add_up(url, "AND version = {}").await;
    println!("{WRITERS} writers, {ROUNDS} rounds: {sum}, overtaken {overtaken} times");
    assert_eq!(sum, WRITERS * ROUNDS);
    assert!(overtaken >= ROUNDS, "all writers read the same version");
    let (sum, _) = add_up(url, "").await;
    println!("without the version: {sum}");
    assert_eq!(sum, ROUNDS, "of updates based on the same read, the last one wins");
    let mut sql = accounts(url).await;
    let update = "UPDATE account SET version = version + 1 WHERE version = 0";
    let error = updated(sql.ask(update).await.changed).expect_err("there are three");
    assert!(matches!(error, NotUpdated::NotUnique { rows: 3, .. }), "{error:?}");
    assert_eq!(updated(sql.ask(update).await.changed), Err(NotUpdated::Overtaken));
    sql.ask("DROP TABLE account").await;
}

/// A connection, and what its last statement returned.
type Done = (Box<Sql>, Result<Reply, Code>);

/// A connection to the database that a block names.
enum Actor {
    Idle(Box<Sql>),
    Waiting(JoinHandle<Done>),
}

impl Actor {
    /// Starts a statement, which may have to wait.
    fn begin(self, statement: String) -> JoinHandle<Done> {
        let mut sql = self.idle();
        tokio::spawn(async move {
            let reply = sql.run(&statement).await;
            (sql, reply)
        })
    }

    async fn goes_on(self) -> Done {
        match self {
            Self::Idle(_) => panic!("no statement is waiting"),
            Self::Waiting(task) => {
                within(SOON, "the statement ends", task).await.expect("no panic")
            }
        }
    }

    fn idle(self) -> Box<Sql> {
        match self {
            Self::Idle(sql) => sql,
            Self::Waiting(_) => panic!("the statement is still waiting"),
        }
    }
}

/// Formats a reply as the page does.
fn shown(reply: &Result<Reply, Code>, outcome: &str) -> String {
    match reply {
        Ok(_) if outcome.is_empty() => String::new(),
        Ok(reply) if outcome.ends_with("row") || outcome.ends_with("rows") => {
            match (&*reply.rows, reply.changed) {
                ([], 0) if outcome == "no row" => "no row".into(),
                ([], 1) => "1 row".into(),
                ([], changed) => format!("{changed} rows"),
                (rows, _) => rows.join(", "),
            }
        }
        Ok(reply) => reply.rows.join(", "),
        Err(code) => format!("error {code}"),
    }
}

/// One of the two connections in a deadlock gets an error, and the other continues.
async fn deadlock(actors: &mut BTreeMap<char, Actor>, code: &str) {
    let (mut failed, mut waited) = (0, Vec::new());
    for (name, actor) in std::mem::take(actors) {
        match actor {
            Actor::Waiting(task) if task.is_finished() => waited.insert(0, (name, task)),
            Actor::Waiting(task) => waited.push((name, task)),
            idle @ Actor::Idle(_) => drop(actors.insert(name, idle)),
        }
    }
    let tasks = waited.into_iter().map(|(name, task)| async move {
        let (mut sql, reply) = task.await.expect("no panic");
        if reply.is_err() {
            // The other connection waits until this one rolls back.
            sql.ask("ROLLBACK").await;
        }
        (name, sql, reply)
    });
    let ended = futures_util::future::join_all(tasks);
    for (name, sql, reply) in within(SOON, "the deadlock ends", ended).await {
        if let Err(reply) = reply {
            assert_eq!(reply, code);
            failed += 1;
        }
        actors.insert(name, Actor::Idle(sql));
    }
    assert_eq!(failed, 1, "one of them fails");
}

/// Runs the statements of a block, and compares their results with the page.
async fn perform(url: &str, block: &str) {
    drop(accounts(url).await);
    let mut actors = BTreeMap::<char, Actor>::new();
    for line in block.lines().filter_map(|line| line.strip_prefix("/* ")) {
        println!("{line}");
        let (name, rest) = line.split_once(" */ ").expect("the connection's name");
        let name = name.chars().next().expect("a letter");
        let (statement, outcome) = rest.rsplit_once("-- ").unwrap_or((rest, ""));
        let outcome = outcome.trim_start_matches("goes on");
        let statement = statement.trim().trim_end_matches(';').to_owned();
        let actor = match actors.remove(&name) {
            Some(actor) => actor,
            None => Actor::Idle(Box::new(Sql::connect(url).await)),
        };
        let (sql, reply) = match (&*statement, outcome) {
            ("", "dies") => {
                drop(actor.idle());
                continue;
            }
            ("", _) => actor.goes_on().await,
            (_, "waits") => {
                let task = actor.begin(statement);
                let waits = async || !task.is_finished();
                throughout(Duration::from_millis(300), "the call waits", waits).await;
                actors.insert(name, Actor::Waiting(task));
                continue;
            }
            (_, deadlocked) if deadlocked.starts_with("deadlock ") => {
                actors.insert(name, Actor::Waiting(actor.begin(statement)));
                deadlock(&mut actors, deadlocked.trim_start_matches("deadlock ")).await;
                continue;
            }
            _ => Actor::Waiting(actor.begin(statement)).goes_on().await,
        };
        assert_eq!(shown(&reply, outcome), outcome, "{line}");
        actors.insert(name, Actor::Idle(sql));
    }
    for (_, actor) in actors {
        // There may be no open transaction.
        let _ = actor.idle().run("ROLLBACK").await;
    }
}

/// Each statement of `docs/guide/row-locks.md` that is for this store returns what the page says.
pub(crate) async fn page_on_row_locks_matches_the_databases(database: &impl Database) {
    let url = database.url();
    let (store, _) = url.split_once("://").expect("a scheme");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/row-locks.md");
    let page = fs::read_to_string(page).expect("the page");
    let mut performed = 0;
    for block in page.split("```sql\n").skip(1) {
        let block = block.split("```").next().expect("a block");
        let stores = block.lines().next().and_then(|line| line.strip_prefix("-- "));
        if stores.expect("which stores").split(", ").any(|named| named == store) {
            println!("\n{block}");
            perform(url, block).await;
            performed += 1;
        }
    }
    assert!(performed >= 5, "{performed} blocks");
    drop(connect(url).await.ask("DROP TABLE account").await);
}
