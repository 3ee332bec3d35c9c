//! The servers' counters, read by the conducting process.

use std::{
    collections::BTreeMap,
    ops::{Add, Sub},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use distlock_testkit::servers::{METRICS, ask};

use crate::{
    Result,
    backend::Backend,
    statements::{self, Counted},
    tries,
};

pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(5);
/// ZooKeeper counts the benchmark's queries among the packets: their number is added to the result
/// under this name.
const QUESTIONS: &str = "questions";
/// Redis counts commands of scripts like those of clients. The scripts call none of these commands,
/// except for those of a keepalive and an event.
const COMMANDS: [&str; 6] = ["eval", "evalsha", "set", "unlink", "subscribe", "unsubscribe"];
/// Redlock's scripts set keys: subjects without scripts count their requests themselves.
const SCRIPTS: [&str; 2] = ["eval", "evalsha"];

/// Sums over the servers; NaN if the store does not count it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// All requests; on etcd without messages of watch streams, on ZooKeeper with pings and reads
    /// that set a watch.
    pub(crate) requests: f64,
    /// etcd's Puts among them, which only the unrelated load uses.
    pub(crate) puts: f64,
    /// Messages to etcd's watch streams, which create and cancel watches.
    pub(crate) watch_messages: f64,
    /// Events for watchers; on etcd also for the Lock RPC, within the server.
    pub(crate) events: f64,
    /// To clients.
    pub(crate) bytes: f64,
    /// Renewals of etcd's leases.
    pub(crate) keepalives: f64,
    /// Entries of ZooKeeper's log, including renewals.
    pub(crate) updates: f64,
    /// Bytes written to Redis' append-only file, if it was not rewritten meanwhile.
    pub(crate) logged: f64,
}

impl Add for Counters {
    type Output = Self;

    fn add(self, later: Self) -> Self {
        self - (Self::default() - later)
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            puts: self.puts - earlier.puts,
            watch_messages: self.watch_messages - earlier.watch_messages,
            events: self.events - earlier.events,
            bytes: self.bytes - earlier.bytes,
            keepalives: self.keepalives - earlier.keepalives,
            updates: self.updates - earlier.updates,
            logged: self.logged - earlier.logged,
        }
    }
}

impl Counters {
    pub(crate) async fn read(backend: Backend, servers: &[String]) -> Result<Self> {
        let mut sum = Self::default();
        for server in servers {
            match backend {
                Backend::Etcd => sum.add_etcd(&metrics(server).await?),
                Backend::ZooKeeper => sum.add_zookeeper(&mntr(server).await?),
                Backend::Redis => sum.add_redis(&info(server).await?, &COMMANDS),
                Backend::Redlock => sum.add_redis(&info(server).await?, &SCRIPTS),
                sql => sum.add_sql(&statements::count(sql, server).await?),
            }
        }
        Ok(sum)
    }

    fn add_etcd(&mut self, metrics: &BTreeMap<String, f64>) {
        for (name, value) in metrics {
            let of = |method: &str| name.contains(&format!("grpc_method=\"{method}\""));
            if name.starts_with("grpc_server_started_total") && name.contains("grpc_type=\"unary\"")
            {
                self.requests += value;
                if of("Put") {
                    self.puts += value;
                }
            } else if name.starts_with("grpc_server_msg_received_total") && of("LeaseKeepAlive") {
                self.requests += value;
                self.keepalives += value;
            } else if name.starts_with("grpc_server_msg_received_total") && of("Watch") {
                self.watch_messages += value;
            } else if name == "etcd_debugging_mvcc_events_total" {
                self.events += value;
            } else if name == "etcd_network_client_grpc_sent_bytes_total" {
                self.bytes += value;
            }
        }
    }

    fn add_zookeeper(&mut self, mntr: &BTreeMap<String, f64>) {
        let of = |name: &str| mntr.get(name).copied().unwrap_or_default();
        self.requests += of("zk_packets_received") - of(QUESTIONS);
        self.bytes += of("zk_response_bytes");
        self.updates += of("zk_cnt_updatelatency");
        for what in ["created", "deleted", "changed", "children"] {
            self.events += of(&format!("zk_sum_node_{what}_watch_count"));
        }
    }

    fn add_redis(&mut self, info: &str, requests: &[&str]) {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let calls = |command: &str| {
            let stats = field(&format!("cmdstat_{command}"))?.strip_prefix("calls=")?;
            stats.split(',').next()?.parse::<f64>().ok()
        };
        let sum =
            |commands: &[&str]| commands.iter().filter_map(|command| calls(command)).sum::<f64>();
        self.requests += sum(requests);
        self.keepalives += sum(&["hincrby"]);
        self.events += sum(&["publish"]);
        let bytes = field("total_net_output_bytes").and_then(|bytes| bytes.trim().parse().ok());
        self.bytes += bytes.unwrap_or(0.0);
        let logged = field("aof_current_size").and_then(|bytes| bytes.trim().parse::<f64>().ok());
        self.logged += logged.unwrap_or(f64::NAN);
        self.watch_messages = f64::NAN;
    }

    fn add_sql(&mut self, counted: &Counted) {
        self.requests += counted.requests;
        self.keepalives += counted.keepalives;
        self.bytes += counted.bytes;
        (self.watch_messages, self.events) = (f64::NAN, f64::NAN);
    }
}

/// etcd's metrics by name and labels.
pub(crate) async fn metrics(server: &str) -> Result<BTreeMap<String, f64>> {
    let text = ask(server, METRICS, TIME_LIMIT).await?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, value)| pair(name, value))
        .collect())
}

/// The reply to Redis' INFO.
pub(crate) async fn info(server: &str) -> Result<String> {
    let mut connection = tries::connect(server).await?;
    Ok(redis::cmd("INFO").arg("everything").query_async(&mut connection).await?)
}

/// ZooKeeper's counters by name.
pub(crate) async fn mntr(server: &str) -> Result<BTreeMap<String, f64>> {
    static ASKED: Mutex<BTreeMap<String, f64>> = Mutex::new(BTreeMap::new());
    let text = ask(server, "mntr", TIME_LIMIT).await?;
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    let mut counters: BTreeMap<_, _> =
        lines.filter_map(|(name, value)| pair(name, value)).collect();
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = asked.entry(server.to_owned()).or_default();
    *asked += 1.0;
    counters.insert(QUESTIONS.to_owned(), *asked);
    Ok(counters)
}

/// How many requests other than pings ZooKeeper's sessions have made: the numbers of their last
/// ones.
pub(crate) async fn numbered(server: &str) -> Result<f64> {
    let text = ask(server, "cons", TIME_LIMIT).await?;
    let numbers = text.split("lcxid=0x").skip(1).filter_map(|rest| rest.split(',').next());
    Ok(numbers.filter_map(|number| u32::from_str_radix(number, 16).ok()).map(f64::from).sum())
}

fn pair(name: &str, value: &str) -> Option<(String, f64)> {
    Some((name.to_owned(), value.trim().parse().ok()?))
}
