//! `doctor`: whether the store can be used, and what to do if not.

use std::time::{Duration, Instant, SystemTime};

use distlock::{Client, Error, FailoverBehavior, StoreKind};
use serde_json::json;

use crate::{
    exit::{self, ABSENT, DENIED, Failure},
    output::Output,
    server::{Server, servers},
    store,
};

/// How often the round trip is measured.
const PINGS: usize = 5;
/// How much clocks may differ before it is worth a word: ages are shown by them, and nothing is
/// decided.
const SKEW: Duration = Duration::from_secs(5);

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// It cannot be told.
    Unknown,
    Bad,
}

/// Tells what it finds.
struct Doctor {
    output: Output,
    bad: bool,
}

impl Doctor {
    fn tell(
        &mut self,
        verdict: Verdict,
        check: &str,
        finding: &str,
        advice: &str,
    ) -> Result<(), Failure> {
        let shown = match verdict {
            Verdict::Good => "ok",
            Verdict::Unknown => "unknown",
            Verdict::Bad => "BAD",
        };
        self.bad |= verdict == Verdict::Bad;
        let advice = if verdict == Verdict::Good { "" } else { advice };
        let then = if advice.is_empty() { String::new() } else { format!("; {advice}") };
        let text = format!("{shown:7}  {check:10}  {finding}{then}");
        let object =
            json!({ "check": check, "verdict": shown, "finding": finding, "advice": advice });
        Ok(self.output.line(&text, &object)?)
    }
}

/// Looks at all of it; the code is 0 if all is well.
pub(crate) async fn examine(url: &str, output: Output) -> Result<u8, Failure> {
    let mut doctor = Doctor { output, bad: false };
    let found = servers(url).await;
    for server in &found {
        look_at(server, &mut doctor)?;
    }
    doctor.tell(
        Verdict::Good,
        "version",
        &format!("distlock {}", env!("CARGO_PKG_VERSION")),
        "",
    )?;
    let start = Instant::now();
    let client = match store::connect(url, None).await {
        Ok(client) => client,
        Err(failure) => {
            let advice = match failure.code {
                DENIED => "check the user's name, password, certificates and rights",
                exit::UNAVAILABLE if found.is_empty() => "check that the store is available",
                exit::UNAVAILABLE => "check the servers above, or set a longer connect_timeout",
                _ => "",
            };
            doctor.tell(Verdict::Bad, "session", &failure.to_string(), advice)?;
            return Ok(failure.code);
        }
    };
    let opened = format!("opened in {:.1} ms on {}", ms(start.elapsed()), client.backend());
    doctor.tell(Verdict::Good, "session", &opened, "")?;
    let checked = check(&client, &found, &mut doctor).await;
    let _ = client.close().await;
    checked?;
    Ok(if doctor.bad { ABSENT } else { 0 })
}

fn look_at(server: &Server, doctor: &mut Doctor) -> Result<(), Failure> {
    let address = &server.address;
    match &server.reached {
        Ok(time) => {
            let finding = format!("connected to {address} in {:.1} ms", ms(*time));
            doctor.tell(Verdict::Good, "server", &finding, "")?;
        }
        Err(error) => {
            let finding = format!("{address}: {error}");
            let advice = "check that the server is running, and check the port and the firewall";
            doctor.tell(Verdict::Bad, "server", &finding, advice)?;
        }
    }
    match (&server.version, &server.reached) {
        (Some(version), _) => {
            let (verdict, advice) = if version.is_new_enough() {
                (Verdict::Good, String::new())
            } else {
                (Verdict::Bad, format!("upgrade to {} or later", version.least()))
            };
            let finding = format!("{address} runs {version}");
            doctor.tell(verdict, "version", &finding, &advice)?;
        }
        (None, Ok(_)) => {
            let finding = format!("the version of {address} is unknown");
            doctor.tell(Verdict::Unknown, "version", &finding, server.why_no_version())?;
        }
        (None, Err(_)) => {}
    }
    Ok(())
}

/// What the store promises as it is configured.
async fn promised(client: &Client, doctor: &mut Doctor) -> Result<(), Failure> {
    let durability = match client.durability().await {
        Ok(durability) => durability,
        Err(error) => {
            let advice = match error {
                Error::Denied { .. } => "check that the user in the URL may read the configuration",
                _ => "check the store's log",
            };
            return doctor.tell(Verdict::Unknown, "promise", &exit::chain(&error), advice);
        }
    };
    let (verdict, exclusive) = match durability.exclusive {
        true => (Verdict::Good, "locks are exclusive"),
        false => (Verdict::Bad, "two clients may hold the same lock in some situations"),
    };
    let loss = match durability.failover {
        FailoverBehavior::Continues => "if a server is lost, another one takes over",
        FailoverBehavior::Blocks => "if a server is lost, no lock is granted until it is back",
        _ => "if a server is lost, confirmed grants may be lost",
    };
    let finding = format!("{exclusive}; {loss}");
    doctor.tell(verdict, "promise", &finding, &durability.reasons.join("; "))
}

async fn check(client: &Client, servers: &[Server], doctor: &mut Doctor) -> Result<(), Failure> {
    let ttl = client.session_ttl();
    let finding = format!("granted {}", humantime::format_duration(ttl));
    let least = Duration::from_secs(2);
    let advice = "the TTL is too short for a busy machine: use ?session_ttl=10s";
    let verdict = if ttl < least { Verdict::Bad } else { Verdict::Good };
    doctor.tell(verdict, "ttl", &finding, advice)?;

    promised(client, doctor).await?;

    let mut times = Vec::new();
    for _ in 0..PINGS {
        match client.ping().await {
            Ok(time) => times.push(time),
            Err(error) => {
                let advice = "the session cannot be renewed: check the store's log";
                doctor.tell(Verdict::Bad, "round trip", &exit::chain(&error), advice)?;
                return Ok(());
            }
        }
    }
    times.sort_unstable();
    let (middle, most) = (times[PINGS / 2], times[PINGS - 1]);
    let finding =
        format!("median {:.1} ms, maximum {:.1} ms, in {PINGS} requests", ms(middle), ms(most));
    let verdict = if most > ttl / 20 { Verdict::Bad } else { Verdict::Good };
    let advice = "the store is too slow for the TTL: use a longer ?session_ttl, or a nearer store";
    doctor.tell(verdict, "round trip", &finding, advice)?;

    rights(client, doctor).await?;
    clock(client, servers, doctor).await
}

/// A lock of its own, which nobody else waits for.
fn own_name() -> String {
    format!("distlock-doctor-{}-{}", std::process::id(), crate::clock::now().as_nanos())
}

async fn rights(client: &Client, doctor: &mut Doctor) -> Result<(), Failure> {
    let namespace = client.namespace();
    let tried = async { client.mutex(own_name()).lock().await?.unlock().await };
    match tried.await {
        Ok(()) => {
            let finding = format!("acquired and released a lock in {namespace}");
            doctor.tell(Verdict::Good, "rights", &finding, "")
        }
        Err(error) => {
            let advice = format!(
                "check that the user in the URL may read, write and delete the entries of locks \
                 in {namespace}"
            );
            doctor.tell(Verdict::Bad, "rights", &exit::chain(&error), &advice)
        }
    }
}

async fn clock(client: &Client, servers: &[Server], doctor: &mut Doctor) -> Result<(), Failure> {
    let here = SystemTime::now();
    let there = if client.backend() == StoreKind::ZooKeeper {
        // Its servers note when each key was made.
        let mutex = client.mutex(own_name());
        let looked = async {
            let guard = mutex.lock().await?;
            let since = mutex.holder().await?.and_then(|holder| holder.since());
            guard.unlock().await?;
            Ok::<_, distlock::Error>(since)
        };
        looked.await.unwrap_or_default().map(|there| (here, there))
    } else {
        servers.iter().find_map(|server| server.clock)
    };
    let Some((here, there)) = there else {
        let advice = "doctor queries the time only on ZooKeeper, and on etcd without TLS";
        let finding = "the server's time is unknown";
        return doctor.tell(Verdict::Unknown, "clock", finding, advice);
    };
    let (ahead, apart) = match there.duration_since(here) {
        Ok(apart) => ("ahead of", apart),
        Err(error) => ("behind", error.duration()),
    };
    let finding = format!("the server is {:.1} s {ahead} this machine", apart.as_secs_f64());
    let verdict = if apart > SKEW { Verdict::Bad } else { Verdict::Good };
    let advice = "synchronize both clocks with NTP: locks do not depend on them, but displayed \
                  ages and --once-per do";
    doctor.tell(verdict, "clock", &finding, advice)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
