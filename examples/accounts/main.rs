//! Several processes move money between two accounts of a database, one at a time by a lock that is
//! in the same database. Now and then one of them is stopped (SIGSTOP) for longer than its lock
//! lives, after it has read the balances and before it writes what it has computed.
//!
//! `cargo run --features rusqlite-0_42 --example accounts` needs no server. Or, with the features
//! `tokio-postgres-0_7` and `mysql_async-0_37`:
//! `… --example accounts -- postgres://user:password@host/database`
//!
//! **Fenced**, the transaction asks first whether the lock is held (`postgres::check` and the
//! like): nothing is lost. **Unfenced**, one that was stopped writes over what others did
//! meanwhile. Their transfers are lost: the sum is right, and bob has less than was paid to him.

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
/// How often one is stopped.
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
        // The first client makes the lock's tables.
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

/// Starts the workers and stops some. Tells how many transfers were committed, and refused.
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
            // It has read, and is about to write.
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
        // Others have had the lock since, or there are no others any more.
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

/// Moves 1 from alice to bob, and again.
async fn work(url: &str, fenced: bool) -> Result<()> {
    let client = Client::builder(url).session_ttl(TTL).connect().await?;
    let (mutex, mut bank, mut moved) = (client.mutex("bank"), Bank::open(url).await?, 0);
    while moved < TRANSFERS {
        // Its session may have ended while it was stopped: then there is another one.
        let Ok(guard) = mutex.lock().await else { continue };
        let [alice, bob] = bank.balances().await?;
        println!("read");
        stdin().read_line(&mut String::new())?; // here it is stopped
        let check = fenced.then_some(&guard);
        if bank.write([alice - 1, bob + 1], check).await? {
            println!("moved");
            moved += 1;
        } else {
            println!("refused");
        }
        let _ = guard.unlock().await; // it may have been lost
    }
    Ok(client.close().await?)
}
