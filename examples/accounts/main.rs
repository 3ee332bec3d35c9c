//! Several processes move money between two accounts in a database. A lock in the same database
//! lets only one process work at a time. Some processes are stopped (SIGSTOP) for longer than the
//! TTL of their session, after they read the balances and before they write the new balances.
//!
//! `cargo run --features rusqlite-0_42 --example accounts` needs no server. With the features
//! `tokio-postgres-0_7` and `mysql_async-0_37`, the example also runs on a server:
//! `… --example accounts -- postgres://user:password@localhost/database`
//!
//! **Fenced**, each transaction first checks that the lock is held (`postgres::check` and its
//! counterparts), and no transfer is lost. **Unfenced**, a process that was stopped overwrites the
//! transfers that other processes have made since. Those transfers are lost: the sum of the
//! balances is right, but bob has less than was paid to him.

mod bank;

use std::{
    error::Error,
    io::{BufRead, BufReader, Write, stdin},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use bank::Bank;
use distlock::Client;

const WORKERS: usize = 3;
const TRANSFERS: usize = 8;
/// How often a worker is stopped.
const STOPS: usize = 2;
const TTL: Duration = Duration::from_secs(2);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["work", url, kind] => work(url, *kind == "fenced").await,
        [url] => compare(url).await,
        _ => {
            let file = std::env::temp_dir().join(format!("accounts-{}.db", std::process::id()));
            let compared = compare(&format!("sqlite://{}", file.display())).await;
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", file.display()));
            }
            compared
        }
    }
}

async fn compare(url: &str) -> Result<()> {
    for kind in ["fenced", "unfenced"] {
        // The first client creates the tables of the locks.
        Client::connect(url).await?.close().await?;
        let mut bank = Bank::open(url).await?;
        bank.fill().await?;
        let (moved, refused) = supervise(url, kind)?;
        let [alice, bob] = bank.balances().await?;
        bank.run(bank::DROP).await?;
        println!(
            "{kind}: {moved} transfers committed, {refused} refused; alice {alice} and bob {bob} \
             have {} together; lost {}",
            alice + bob,
            moved - (1000 - alice)
        );
    }
    Ok(())
}

/// Starts the workers, and stops some of them.
///
/// Returns how many transfers were committed and how many were refused.
fn supervise(url: &str, kind: &str) -> Result<(i64, i64)> {
    let (said, hears) = channel();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(Worker::start(number, url, kind, said.clone())?);
    }
    drop(said);
    let (mut stopped, mut stops, mut meanwhile, mut at_work) = (None, 0, 0, WORKERS);
    let (mut moved, mut refused) = (0, 0);
    for (number, line) in hears {
        match &*line {
            // The worker has read the balances, and is about to write.
            "read" => {
                if stopped.is_none() && stops < STOPS {
                    workers[number].signal("STOP")?;
                    (stopped, stops, meanwhile) = (Some(number), stops + 1, 0);
                }
                workers[number].orders.write_all(b"write\n")?;
            }
            "moved" => (moved, meanwhile) = (moved + 1, meanwhile + 1),
            "refused" => refused += 1,
            "ended" => at_work -= 1,
            other => return Err(format!("worker {number} says {other:?}").into()),
        }
        // Others have held the lock since, or all others have ended.
        if let Some(number) = stopped.filter(|_| meanwhile >= 2 || at_work == 1) {
            workers[number].signal("CONT")?;
            stopped = None;
        }
    }
    for mut worker in workers {
        if !worker.process.wait()?.success() {
            return Err("a worker failed; see its message above".into());
        }
    }
    Ok((moved, refused))
}

struct Worker {
    process: Child,
    orders: ChildStdin,
}

impl Worker {
    fn start(number: usize, url: &str, kind: &str, said: Sender<(usize, String)>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["work", url, kind]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let orders = process.stdin.take().ok_or("no pipe")?;
        let lines = BufReader::new(process.stdout.take().ok_or("no pipe")?).lines();
        thread::spawn(move || {
            let ended = [Ok("ended".to_owned())];
            for line in lines.chain(ended).map_while(std::result::Result::ok) {
                let _ = said.send((number, line));
            }
        });
        Ok(Self { process, orders })
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status()?;
        if sent.success() { Ok(()) } else { Err("kill failed".into()) }
    }
}

/// Moves 1 from alice to bob, several times.
async fn work(url: &str, fenced: bool) -> Result<()> {
    let client = Client::builder(url).session_ttl(TTL).connect().await?;
    let (mutex, mut bank, mut moved) = (client.mutex("bank"), Bank::open(url).await?, 0);
    while moved < TRANSFERS {
        // The session may have ended while the process was stopped. The next call then opens a new
        // one.
        let Ok(guard) = mutex.lock().await else { continue };
        let [alice, bob] = bank.balances().await?;
        println!("read");
        stdin().read_line(&mut String::new())?; // the process is stopped here
        let check = fenced.then_some(&guard);
        if bank.write([alice - 1, bob + 1], check).await? {
            println!("moved");
            moved += 1;
        } else {
            println!("refused");
        }
        let _ = guard.unlock().await; // the lock may be lost
    }
    Ok(client.close().await?)
}
