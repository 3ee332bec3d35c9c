//! A scheduled task with several instances, as if on several machines: each instance takes
//! unprocessed rows from one table and processes them.
//!
//! `cargo run --features sqlite --example scheduled_task -- [--instances 4] [--rows 200]
//! [--unlocked]` stores the lock in a file in the temporary directory. To store the lock on a
//! server instead, run `cargo run --features STORE --example scheduled_task -- --url URL`, where
//! STORE is `etcd`, `zookeeper`, `postgres`, `mysql`, `redis` or `redlock`.
//!
//! With the URL of a PostgreSQL or MySQL server, the rows are in the database that stores the lock.
//! The example connects to this database without TLS. In all other cases, the rows are in a file.
//!
//! Each instance is a separate process. With the lock, no row is processed twice. With
//! `--unlocked`, some rows usually are. The table checks fencing tokens: if an instance was paused
//! until another instance had written under the lock, the first instance can no longer write.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod database;
mod file;
mod table;

use std::{
    error::Error,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

use distlock::{Client, FencingToken};
use table::{Stale, Table};

/// The number of rows that an instance takes at a time.
const BATCH: usize = 10;
/// The time that processing a row takes.
const WORK: Duration = Duration::from_millis(3);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse()?;
    match &options.table {
        Some(table) => instance(&options, table).await,
        None => parent(&options).await,
    }
}

/// Creates the table, runs the instances, and counts.
async fn parent(options: &Options) -> Result<()> {
    let name = Table::name(&options.url);
    let mut table = Table::create(&options.url, &name, options.rows).await?;
    let counted = run_and_count(options, &name, &mut table).await;
    table.remove().await?;
    let ((rows, twice), left) = counted?;
    if !left.is_empty() {
        return Err(format!("row {} was never processed", left[0]).into());
    }
    println!("rows {rows}, processed twice {twice}");
    Ok(())
}

async fn run_and_count(
    options: &Options,
    name: &str,
    table: &mut Table,
) -> Result<((usize, usize), Vec<usize>)> {
    run_instances(options, name)?;
    if !options.unlocked {
        show_fencing(table).await?;
    }
    Ok((table.count().await?, table.unprocessed(1).await?))
}

fn run_instances(options: &Options, table: &str) -> Result<()> {
    let mut instances =
        (0..options.instances).map(|_| spawn(options, table)).collect::<Result<Vec<_>>>()?;
    // All instances start at the same time, as a schedule would start them.
    for instance in &mut instances {
        let stdout = instance.stdout.as_mut().ok_or("no pipe to the instance")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line != "ready\n" {
            return Err("an instance could not start; see its message above".into());
        }
    }
    for instance in &mut instances {
        instance.stdin.take().ok_or("no pipe to the instance")?.write_all(b"go\n")?;
    }
    for mut instance in instances {
        if !instance.wait()?.success() {
            return Err("an instance failed; see its message above".into());
        }
    }
    Ok(())
}

fn spawn(options: &Options, table: &str) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--url").arg(&options.url).arg("--table").arg(table);
    if options.unlocked {
        command.arg("--unlocked");
    }
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

/// Shows that the table, which has seen newer tokens, refuses a write with token 0.
async fn show_fencing(table: &mut Table) -> Result<()> {
    match table.mark(0, Some(0)).await? {
        Ok(()) => Err("the table accepted a stale token".into()),
        Err(Stale { newest }) => {
            println!("a write with the stale token 0 was refused: the table has seen {newest}");
            Ok(())
        }
    }
}

async fn instance(options: &Options, name: &str) -> Result<()> {
    let mut table = Table::open(&options.url, name).await?;
    // The lock has the name of the table, so that each table has its own.
    let client = Client::connect(&options.url).await?;
    let mutex = client.mutex(name);
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;

    let mut busy = true;
    while busy {
        if options.unlocked {
            busy = process_batch(&mut table, None).await?;
            continue;
        }
        let guard = match mutex.lock().await {
            Ok(guard) => guard,
            Err(error) if error.is_retryable() => continue,
            Err(error) => return Err(error.into()),
        };
        // The work stops when the lock is lost. If a write still arrives late, the table refuses
        // its token.
        match guard.run(process_batch(&mut table, Some(guard.fencing_token()))).await {
            Ok(batch) => busy = batch?,
            Err(lost) => eprintln!("{lost}; another instance processes the remaining rows"),
        }
        if let Err(error) = guard.unlock().await {
            eprintln!("{error}");
        }
    }
    client.close().await?;
    Ok(())
}

/// Processes the next rows, and returns `true` if there were any.
async fn process_batch(table: &mut Table, token: Option<FencingToken>) -> Result<bool> {
    let rows = table.unprocessed(BATCH).await?;
    for row in &rows {
        tokio::time::sleep(WORK).await; // the work
        if let Err(stale) = table.mark(*row, token.map(u64::from)).await? {
            eprintln!("{stale}");
            break;
        }
    }
    Ok(!rows.is_empty())
}

struct Options {
    url: String,
    instances: usize,
    rows: usize,
    unlocked: bool,
    /// The name or the file of the table. The parent passes it to each instance.
    table: Option<String>,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options =
            Self { url: String::new(), instances: 4, rows: 200, unlocked: false, table: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--url" => options.url = value()?,
                "--instances" => options.instances = value()?.parse()?,
                "--rows" => options.rows = value()?.parse()?,
                "--table" => options.table = Some(value()?),
                "--unlocked" => options.unlocked = true,
                _ => return Err(format!("unknown option {arg}").into()),
            }
        }
        if options.url.is_empty() && cfg!(feature = "sqlite") {
            let path = std::env::temp_dir().join("distlock-scheduled-task.db");
            options.url = format!("sqlite://{}", path.display());
        }
        if options.url.is_empty() || options.url.starts_with("memory://") {
            return Err(
                "--url must be etcd://host:2379, zk://host:2181, postgres://host/database, \
                        mysql://host/database, redis://host or redlock://host,host,host, \
                        or, with the feature sqlite, sqlite:///path \
                        (memory:// does not reach other processes)"
                    .into(),
            );
        }
        if options.rows == 0 || options.instances == 0 {
            return Err("--rows and --instances must be at least 1".into());
        }
        Ok(options)
    }
}
