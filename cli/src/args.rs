//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args as ArgsOf, Parser, Subcommand, ValueEnum};
use rustix::process::Signal;

use crate::{exit, signals};

/// Runs commands under distributed locks and shows the locks' holders and waiters.
#[derive(Debug, Parser)]
#[command(name = "distlock", version, after_help = exit::CODES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options for the store and the output.
#[derive(Clone, Debug, ArgsOf)]
pub(crate) struct StoreArgs {
    /// URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or
    /// zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in
    /// etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line,
    /// so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and
    /// --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// File that contains the URL of the store.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url")]
    pub(crate) url_file: Option<PathBuf>,
    /// Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only
    /// processes of this user on this host.
    #[arg(long, global = true, conflicts_with_all = ["url", "url_file"])]
    pub(crate) local: bool,
    /// Prints results on standard output and messages on standard error as JSON, one object per
    /// line. The following stay text: help, the version, completions, the manual page, the error if
    /// the command line cannot be parsed, and the guardian's message after distlock was killed.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while holding a lock.
    ///
    /// The command and all processes that it started are dead before the lock is released or
    /// expires, even if distlock is stopped or killed. The exceptions include a pause of the whole
    /// machine, and a command that runs as another user. After an eviction, another client may
    /// already hold the lock: the command is killed as soon as distlock is notified. The
    /// environment of the command contains DISTLOCK_NAME, DISTLOCK_TOKEN (the fencing token),
    /// DISTLOCK_KEY, DISTLOCK_OWNER and DISTLOCK_URL (without a password).
    #[command(after_help = exit::CODES)]
    Run(RunArgs),
    /// Runs a command while leading an election.
    ///
    /// The command runs under the same rules as with `run`. distlock resigns when the command ends.
    #[command(after_help = exit::CODES)]
    Elect(ElectArgs),
    /// Prints the value that the leader of an election has published.
    Leader {
        /// The election.
        name: String,
    },
    /// Watches an election: prints the leader's value, and prints it again when the leader or the
    /// value has changed.
    ///
    /// If the value is replaced before distlock has read it, only the last value is printed.
    Observe {
        /// The election.
        name: String,
    },
    /// Lists the locks that have a holder or waiter, with the kind, the number of waiters, the age
    /// of the first holder and the holders of each.
    Ls {
        /// Lists only locks whose names begin with this prefix.
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Lists the holders and waiters of a lock.
    Queue {
        /// The lock.
        name: String,
        /// The kind of the lock.
        #[arg(long, value_enum, default_value_t = Kind::Mutex)]
        kind: Kind,
        /// Prints the queue again when it has changed. If it changes again before distlock has read
        /// it, only the last state is printed.
        #[arg(long)]
        watch: bool,
    },
    /// Asks the holder of a mutex to release it, and waits for the release. A holder that ignores
    /// requests keeps the mutex, and a request ends after ten minutes.
    Ask {
        /// The mutex.
        name: String,
        /// The reason, which the holder can read.
        reason: String,
        /// Maximum time to wait for the release. If the mutex has not been released by then, the
        /// exit code is 75.
        #[arg(short, long, value_name = "TIME", value_parser = time)]
        wait: Option<Duration>,
    },
    /// Evicts a holder or waiter. If the only holder is evicted, the next waiter is granted the
    /// lock at once.
    ///
    /// The evicted holder may still be working when the next holder starts. The evicted holder is
    /// usually notified within milliseconds. On MySQL and MariaDB, and on PostgreSQL behind a
    /// pooler in transaction mode, this takes up to a second. If an event of the store is lost, the
    /// holder is notified within 1.25 times its recheck_interval. `queue` prints the keys.
    #[command(alias = "break")]
    Evict {
        /// The key, as `queue` prints it.
        key: String,
        /// The fencing token, as `queue` prints it. If the key has a different token, nothing is
        /// evicted.
        #[arg(long)]
        token: Option<u64>,
        /// Confirms the eviction. Without this option, nothing is evicted.
        #[arg(long)]
        yes: bool,
    },
    /// Allows a job of `run --once-per` to run again in its period, for example after a failure.
    ///
    /// clear acquires the job's lock, as a run does.
    Clear {
        /// The lock.
        name: String,
        /// Maximum time to wait for a run that holds the lock. If the run has not ended by then,
        /// the exit code is 75. By default, clear does not wait for a run.
        #[arg(short, long, value_name = "TIME", value_parser = time)]
        wait: Option<Duration>,
    },
    /// Prints the number of permits of a semaphore, or changes it.
    ///
    /// If no number was set and no client holds or awaits a permit, distlock prints 1.
    Permits {
        /// The semaphore.
        name: String,
        /// The new number. It replaces the number that was set last, the numbers which that number
        /// had replaced, and those that the holders and the first waiter have passed. The store
        /// keeps up to eight replaced numbers. For a client that passes any other number, the
        /// smaller number applies. Permits in use stay valid: after a reduction, no permit is
        /// granted until enough of them have been released.
        #[arg(long, value_name = "N")]
        set: Option<u32>,
    },
    /// Checks the store: servers, versions, session, TTL, guarantees, round trip, rights and clock.
    Doctor,
    /// Shows the locks that `ls` lists, and refreshes the display. Press q to quit.
    Top {
        /// Time between two refreshes, at least 100ms.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
        interval: Duration,
    },
    /// Prints the completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page.
    Man,
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A lock with one holder at a time, which `run NAME` acquires.
    Mutex,
    /// A read-write lock, which `run --shared` and `run --exclusive` acquire.
    #[value(name = "rw_lock")]
    RwLock,
    /// A semaphore, whose permits `run --permits` acquires.
    Semaphore,
    /// An election, which `elect` joins as a candidate.
    Election,
}

/// Options of `run` and `elect`.
#[derive(Debug, ArgsOf)]
pub(crate) struct HoldArgs {
    /// Does not wait if the lock is busy. On PostgreSQL, MySQL, MariaDB and Redis, distlock waits
    /// up to 1.15 times the TTL if the holder seems to be dead. The same applies if the server may
    /// lack locks, for example after a failover.
    #[arg(short = 'n', long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Maximum time to wait for the lock, such as 30s or 500ms.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,
    /// TTL: the store frees the lock of a dead machine after about this time. The store may grant a
    /// different TTL.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,
    /// Maximum time to hold the lock, for commands that may hang. A command that does not end in
    /// time is killed, as when the lock is lost (exit code 70), and the next waiter is granted the
    /// lock.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,
    /// Exit code if the lock is busy, the wait times out, or the store cannot confirm in time that
    /// the lock is free.
    #[arg(long, value_name = "CODE", default_value_t = exit::BUSY)]
    pub(crate) conflict_exit_code: u8,
    /// Signal that asks the command to exit before the lock is lost.
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    pub(crate) kill_signal: Signal,
    /// Grace period between --kill-signal and SIGKILL. The period must fit into the TTL, because
    /// the command is killed before the lock's deadline. The default is about a quarter of the TTL,
    /// or a tenth on ZooKeeper, but at most 5s and less than half of --max-hold.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) kill_after: Option<Duration>,
    /// Program and arguments to run after the lock is lost and the command is dead, quoted as for a
    /// shell. The program's environment contains the reason in DISTLOCK_LOST.
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    pub(crate) on_lost: Option<Words>,
    /// Interval at which distlock prints the holder and the position in the queue while it waits.
    /// The default is 10s if standard error is a terminal and --json is not set. Otherwise,
    /// distlock prints this only if the option is set. On Redlock, distlock never prints this.
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
    /// Acquires a read-write lock for reading, which several --shared holders can hold at once. A
    /// read-write lock is independent of a plain lock of the same name, so every run for the
    /// name needs --shared or --exclusive.
    #[arg(long, group = "manner")]
    pub(crate) shared: bool,
    /// Acquires a read-write lock for writing, which excludes all other holders. See --shared.
    #[arg(long, group = "manner")]
    pub(crate) exclusive: bool,
    /// Acquires K of the N permits of a semaphore. If the holders and the first waiter pass
    /// different values of N, the smallest value applies. `permits --set` can replace these values.
    #[arg(long, value_name = "K/N", value_parser = permits, group = "manner")]
    pub(crate) permits: Option<(u32, u32)>,
    /// Acquires all of these locks, and NAME if it is given, or none of them.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', group = "manner")]
    pub(crate) all: Vec<String>,
    /// Minimum time to hold the lock, even if the command ends earlier. A signal that arrives after
    /// the command has ended, or the loss of the lock, cuts this time short. Use this option with
    /// -n if several hosts start the same job at slightly different times.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) hold_at_least: Option<Duration>,
    /// Period of a job that many hosts start. If distlock was started less than nine tenths of this
    /// period after the last run was started, it exits with 0 without running the command. Time
    /// spent waiting for the lock does not count. The store records when the last run was started.
    #[arg(long, value_name = "TIME", value_parser = period, conflicts_with = "manner")]
    pub(crate) once_per: Option<Duration>,
    /// The command and its arguments. The command runs without a shell.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ArgsOf)]
pub(crate) struct ElectArgs {
    /// The election.
    pub(crate) name: String,
    /// The value to publish while leading, such as an address.
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    /// The command and its arguments. The command runs without a shell.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Parses a time such as `30s`, `500ms` or `1h 30m`. A number without a unit is in seconds.
fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
    match seconds {
        Some(time) => Ok(time),
        None => humantime::parse_duration(text)
            .map_err(|_| "use a number with a unit, such as 500ms, 30s or 1h".to_owned()),
    }
}

/// Parses a period. The library checks its minimum, too, but only once the lock is held.
fn period(text: &str) -> Result<Duration, String> {
    match time(text)? {
        period if period < Duration::from_millis(100) => {
            Err("must be at least 100ms, because the clocks of hosts differ".to_owned())
        }
        period => Ok(period),
    }
}

fn permits(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once('/');
    numbers
        .and_then(|(wanted, of)| Some((wanted.trim().parse().ok()?, of.trim().parse().ok()?)))
        .ok_or_else(|| "use K/N, as in 2/10".to_owned())
}

fn words(text: &str) -> Result<Words, String> {
    match shell_words::split(text) {
        Ok(words) if words.is_empty() => Err("give the name of a program to run".to_owned()),
        Ok(words) => Ok(Words(words)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_and_permits_are_read() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("1.5"), Ok(Duration::from_millis(1500)));
        assert!(time("-1").is_err());
        assert!(time("soon").is_err());
        assert_eq!(period("0.1"), Ok(Duration::from_millis(100)));
        assert!(period("99ms").is_err());
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

    #[test]
    fn evict_has_a_hidden_alias() {
        for name in ["evict", "break"] {
            let args = Args::try_parse_from(["distlock", name, "/ns/a/key", "--token", "7"]);
            let evict = args.expect("it is a command").command;
            assert!(
                matches!(evict, Command::Evict { token: Some(7), yes: false, .. }),
                "{evict:?}"
            );
        }
        let help = Args::command().render_long_help().to_string();
        assert!(help.contains("  evict ") && !help.contains("break"), "{help}");
    }
}
