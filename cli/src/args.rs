//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args as ArgsOf, Parser, Subcommand, ValueEnum};
use rustix::process::Signal;

use crate::{exit, signals};

/// Runs commands under distributed locks, and shows who holds them.
#[derive(Debug, Parser)]
#[command(name = "distlock", version, after_help = exit::CODES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which store, and how it is told.
#[derive(Clone, Debug, ArgsOf)]
pub(crate) struct StoreArgs {
    /// The store: postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181,
    /// with user, namespace and options as in etcds://user:password@h1/prod/locks?session_ttl=15s.
    /// Other users see a command line: put a password into DISTLOCK_URL, which is used without
    /// this option, or into a file. Without either, the URL is read from /etc/distlock/url.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file with the URL in it.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url")]
    pub(crate) url_file: Option<PathBuf>,
    /// Locks on this host alone, and for this user: in a SQLite file below XDG_STATE_HOME or HOME.
    #[arg(long, global = true, conflicts_with_all = ["url", "url_file"])]
    pub(crate) local: bool,
    /// One JSON object a line: results on standard output, what `run` and `elect` tell on standard
    /// error.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while a lock is held.
    ///
    /// The command and all that it started are dead before another one can get the lock, also if
    /// distlock is stopped or killed. It finds DISTLOCK_NAME, DISTLOCK_TOKEN (the fencing token),
    /// DISTLOCK_KEY, DISTLOCK_OWNER and DISTLOCK_URL (without a password) in its environment.
    #[command(after_help = exit::CODES)]
    Run(RunArgs),
    /// Runs a command while this is the leader of an election.
    ///
    /// It is run as by `run`. When it ends, the leadership is given up.
    #[command(after_help = exit::CODES)]
    Elect(ElectArgs),
    /// Prints what the leader of an election has published.
    Leader {
        /// The election.
        name: String,
    },
    /// Prints what each leader of an election publishes, as it does.
    Observe {
        /// The election.
        name: String,
    },
    /// Lists the locks that are held or waited for, with their holders, ages and waiters.
    Ls {
        /// Only those whose names begin with this.
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Lists who holds a lock and who waits for it.
    Queue {
        /// The lock.
        name: String,
        /// What kind of lock it is.
        #[arg(long, value_enum, default_value_t = Kind::Mutex)]
        kind: Kind,
        /// Prints it again whenever it has changed.
        #[arg(long)]
        watch: bool,
    },
    /// Asks the holder of a lock to let go of it, and waits until it has. One that does not listen
    /// goes on.
    Ask {
        /// The lock.
        name: String,
        /// Why.
        reason: String,
        /// Waits no longer than this; then the exit code is 75.
        #[arg(short, long, value_name = "TIME", value_parser = time)]
        wait: Option<Duration>,
    },
    /// Deletes a holder's or waiter's key by hand: it loses its place, and the next one gets the
    /// lock at once.
    ///
    /// The holder may still be at work when the next one begins: it is told of the loss as soon as
    /// the store's event arrives, or after its recheck_interval. `queue` prints the keys.
    Break {
        /// The key, as `queue` prints it.
        key: String,
        /// Its fencing token, as `queue` prints it: a later hold by the same key is spared.
        #[arg(long)]
        token: Option<u64>,
        /// That this is what you want.
        #[arg(long)]
        yes: bool,
    },
    /// Lets a job of `run --once-per` begin again within its period: it failed, say.
    ///
    /// It takes the job's lock for that, so that no run of it begins or ends meanwhile.
    Clear {
        /// The lock.
        name: String,
        /// Waits no longer than this for a run to end; then the exit code is 75. By default it does
        /// not wait.
        #[arg(short, long, value_name = "TIME", value_parser = time)]
        wait: Option<Duration>,
    },
    /// Prints how many permits a semaphore has, or changes it for all.
    Permits {
        /// The semaphore.
        name: String,
        /// The new number. Nobody loses a permit: with less, nobody is let in for a while.
        #[arg(long, value_name = "N")]
        set: Option<u32>,
    },
    /// Looks whether the store can be used: servers, round trip, TTL, rights, clock, versions.
    Doctor,
    /// Shows all locks, as they change. Ends with q.
    Top {
        /// How often it looks.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
        interval: Duration,
    },
    /// Prints the completions for a shell.
    Completions {
        /// Which.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page.
    Man,
}

/// What kind of lock a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One at a time: `run NAME`.
    Mutex,
    /// `run --shared` and `run --exclusive`.
    #[value(name = "rw_lock")]
    RwLock,
    /// `run --permits`.
    Semaphore,
    /// `elect`.
    Election,
}

/// How a command is run under a lock.
#[derive(Debug, ArgsOf)]
pub(crate) struct HoldArgs {
    /// Does not wait if the lock is busy. If its holder seems dead, PostgreSQL, MySQL, MariaDB and
    /// Redis need up to 1.2 times the TTL to be sure: so long it waits.
    #[arg(short = 'n', long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Waits no longer than this, such as 30s or 500ms.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,
    /// How long the store keeps the lock of a machine that died. What it grants may differ.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,
    /// Holds the lock for no longer than this. Then the command is killed, as when the lock is lost
    /// (exit code 70), and the next one gets the lock. For commands that may hang.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,
    /// The exit code if the lock is busy or the time is up.
    #[arg(long, value_name = "CODE", default_value_t = exit::BUSY)]
    pub(crate) conflict_exit_code: u8,
    /// What tells the command to end when the lock is about to be lost.
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    pub(crate) kill_signal: Signal,
    /// How long it has for that before it is killed, which is before the lock's deadline: longer
    /// than the TTL allows is refused. By default about a quarter of the TTL on etcd, a tenth on
    /// ZooKeeper, and at most 5s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) kill_after: Option<Duration>,
    /// What to run when the lock was lost and the command is dead: a program and its arguments,
    /// quoted as for a shell. It finds the reason in DISTLOCK_LOST.
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    pub(crate) on_lost: Option<Words>,
    /// How often to tell who holds the lock while it is waited for. By default every 10s if
    /// standard error is a terminal, and never otherwise.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait_log: Option<Duration>,
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<String>);

#[derive(Debug, ArgsOf)]
pub(crate) struct RunArgs {
    /// The lock.
    #[arg(required_unless_present = "all")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    /// Together with other --shared ones, but not with an --exclusive one. This is a read-write
    /// lock, which knows nothing of a plain lock of the same name: let all who use the name say
    /// --shared or --exclusive.
    #[arg(long, group = "manner")]
    pub(crate) shared: bool,
    /// Alone, where others say --shared.
    #[arg(long, group = "manner")]
    pub(crate) exclusive: bool,
    /// Takes K of N permits, which all have to call the same number.
    #[arg(long, value_name = "K/N", value_parser = permits, group = "manner")]
    pub(crate) permits: Option<(u32, u32)>,
    /// Takes all of these locks, and NAME if it is there, or none.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', group = "manner")]
    pub(crate) all: Vec<String>,
    /// Keeps the lock for so long at least, even if the command is done: for hosts whose clocks
    /// differ, with -n.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) hold_at_least: Option<Duration>,
    /// Does nothing, with exit code 0, if one has begun less than 0.9 of this time ago: for hosts
    /// that all start the same job. The store keeps when one last began.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "manner")]
    pub(crate) once_per: Option<Duration>,
    /// The command and its arguments. No shell reads them.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ArgsOf)]
pub(crate) struct ElectArgs {
    /// The election.
    pub(crate) name: String,
    /// What is published of this leader, such as its address.
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    /// The command and its arguments. No shell reads them.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `30s`, `500ms`, `1h 30m`; a number alone is seconds.
fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
    match seconds {
        Some(time) => Ok(time),
        None => humantime::parse_duration(text)
            .map_err(|_| "write a time with its unit, such as 500ms, 30s or 1h".to_owned()),
    }
}

fn permits(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once('/');
    numbers
        .and_then(|(wanted, of)| Some((wanted.trim().parse().ok()?, of.trim().parse().ok()?)))
        .ok_or_else(|| "write how many of how many, as in 2/10".to_owned())
}

fn words(text: &str) -> Result<Words, String> {
    match shell_words::split(text) {
        Ok(words) if words.is_empty() => Err("write a program and its arguments".to_owned()),
        Ok(words) => Ok(Words(words)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_and_permits_are_read() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("1.5"), Ok(Duration::from_millis(1500)));
        assert!(time("-1").is_err());
        assert!(time("soon").is_err());
        assert_eq!(permits("2/10"), Ok((2, 10)));
        assert!(permits("2").is_err());
        assert_eq!(words("a 'b c'"), Ok(Words(vec!["a".into(), "b c".into()])));
        assert!(words("").is_err());
        assert!(words("'").is_err());
    }

    #[test]
    fn the_command_comes_after_two_dashes() {
        let read = |line: &str| Args::try_parse_from(line.split(' '));
        assert!(read("distlock run a -- ls -l").is_ok());
        assert!(read("distlock run --all a,b -- ls").is_ok());
        for wrong in [
            "distlock run a",
            "distlock run -- ls",
            "distlock run a ls",
            "distlock run a -n -w 1s -- ls",
            "distlock run a --shared --permits 1/2 -- ls",
            "distlock run a --shared --once-per 1h -- ls",
            "distlock run a --permits 3 -- ls",
            "distlock run a --kill-signal BUZZ -- ls",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
