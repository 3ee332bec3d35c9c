//! A scheduled task on several machines: each instance pulls unprocessed rows from one table and
//! processes them.
//!
//! `cargo run --features sqlite --example scheduled_task -- [--instances 4] [--rows 200]
//! [--unlocked]` keeps the lock in a file below /tmp, for the processes of this host. For several
//! machines: `cargo run --features etcd,zookeeper --example scheduled_task -- --url URL`
//!
//! The instances are processes of their own. With the lock no row is processed twice; with
//! `--unlocked` rows are. The table checks fencing tokens, so that an instance that was paused
//! while its lock went to another one cannot write.

mod table;

use std::{
    error::Error,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use distlock::{Client, FencingToken};
use table::{Stale, Table};

/// Rows taken at a time.
const BATCH: usize = 10;
/// What processing a row takes.
const WORK: Duration = Duration::from_millis(3);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let options = Options::parse()?;
    match &options.table {
        Some(table) => instance(&options, table),
        None => parent(&options),
    }
}

/// Makes the table, runs the instances, and counts.
fn parent(options: &Options) -> Result<()> {
    let path = std::env::temp_dir().join(format!("distlock-scheduled-task-{}", std::process::id()));
    let table = Table::create(&path, options.rows)?;
    let counted = run_instances(options, &path).and_then(|()| {
        if !options.unlocked {
            show_fencing(&table)?;
        }
        Ok((table.rows()?, table.processed_twice()?, table.unprocessed(1)?))
    });
    std::fs::remove_file(&path)?;
    let (rows, twice, left) = counted?;
    if !left.is_empty() {
        return Err(format!("row {} was never processed", left[0]).into());
    }
    println!("rows {rows}, processed twice {twice}");
    Ok(())
}

fn run_instances(options: &Options, table: &Path) -> Result<()> {
    let mut instances =
        (0..options.instances).map(|_| spawn(options, table)).collect::<Result<Vec<_>>>()?;
    // They start together, as a schedule would have them.
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

fn spawn(options: &Options, table: &Path) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--url").arg(&options.url).arg("--table").arg(table);
    if options.unlocked {
        command.arg("--unlocked");
    }
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

/// The table has seen newer tokens than 0: it refuses a holder that old.
fn show_fencing(table: &Table) -> Result<()> {
    match table.mark(0, Some(0))? {
        Ok(()) => Err("the table took a stale token".into()),
        Err(Stale { newest }) => {
            println!("a write with the stale token 0 was refused: the table has seen {newest}");
            Ok(())
        }
    }
}

#[tokio::main]
async fn instance(options: &Options, path: &Path) -> Result<()> {
    let table = Table::open(path);
    // Apart from every other table: its lock is named after the file.
    let client = Client::connect(&options.url).await?;
    let mutex = client.mutex(path.to_string_lossy());
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;

    let mut busy = true;
    while busy {
        if options.unlocked {
            busy = process_batch(&table, None).await?;
            continue;
        }
        let guard = match mutex.lock().await {
            Ok(guard) => guard,
            Err(error) if error.is_retryable() => continue,
            Err(error) => return Err(error.into()),
        };
        // Stops at the moment of loss; what a late write would do, the table's check of the token
        // prevents.
        match guard.run(process_batch(&table, Some(guard.fencing_token()))).await {
            Ok(batch) => busy = batch?,
            Err(lost) => eprintln!("{lost}; the rows that are left are somebody else's now"),
        }
        if let Err(error) = guard.unlock().await {
            eprintln!("{error}");
        }
    }
    client.close().await?;
    Ok(())
}

/// Processes the next rows. Tells whether there were any.
async fn process_batch(table: &Table, token: Option<FencingToken>) -> Result<bool> {
    let rows = table.unprocessed(BATCH)?;
    for row in &rows {
        tokio::time::sleep(WORK).await; // the work
        if let Err(stale) = table.mark(*row, token.map(u64::from))? {
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
    /// The table's file: given to an instance by its parent.
    table: Option<PathBuf>,
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
                "--table" => options.table = Some(value()?.into()),
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
                "--url must be etcd://host:2379 or zk://host:2181, or sqlite:///path with \
                        the feature sqlite, which has it by default (memory:// does not reach \
                        other processes)"
                    .into(),
            );
        }
        if options.rows == 0 || options.instances == 0 {
            return Err("--rows and --instances must be at least 1".into());
        }
        Ok(options)
    }
}
