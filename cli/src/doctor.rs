//! `doctor`: checks whether the store can be used, and advises what to change.

use std::time::{Duration, Instant, SystemTime};

use distlock::{Client, Error, FailoverBehavior, StoreKind};
use serde_json::json;

use crate::{
    exit::{self, ABSENT, DENIED, Failure},
    output::Output,
    server::{Server, servers},
    store,
};

/// The number of round trips that are measured.
const PINGS: usize = 5;
/// How much the clocks may differ before `doctor` reports it. Only displayed ages and `--once-per`
/// depend on them.
const SKEW: Duration = Duration::from_secs(5);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// The check found no evidence.
    Unknown,
    Bad,
}

/// Reports the results of checks.
struct Doctor {
    output: Output,
    bad: bool,
}

impl Doctor {
    /// Reports the result of a check, with advice unless it is good.
    fn report(
        &mut self,
        verdict: Verdict,
        check: &str,
        finding: &str,
        advice: &str,
    ) -> Result<(), Failure> {
        let advice = if verdict == Verdict::Good { "" } else { advice };
        self.report_with_advice(verdict, check, finding, advice)
    }

    fn report_with_advice(
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
        let then = if advice.is_empty() { String::new() } else { format!("; {advice}") };
        let text = format!("{shown:7}  {check:10}  {finding}{then}");
        let object =
            json!({ "check": check, "verdict": shown, "finding": finding, "advice": advice });
        Ok(self.output.line(&text, &object)?)
    }
}

/// Runs all checks. Returns the exit code, which is 0 if all checks passed.
pub(crate) async fn examine(url: &str, output: Output) -> Result<u8, Failure> {
    let mut doctor = Doctor { output, bad: false };
    let found = servers(url).await;
    for server in &found {
        look_at(server, &mut doctor)?;
    }
    doctor.report(
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
                DENIED => {
                    "unless the message names another cause, check the user's name, password, \
                     certificates and rights"
                }
                exit::UNAVAILABLE if found.is_empty() => "check that the store is available",
                exit::UNAVAILABLE => "check the servers above, or set a longer connect_timeout",
                _ => "",
            };
            doctor.report(Verdict::Bad, "session", &failure.to_string(), advice)?;
            return Ok(failure.code);
        }
    };
    let opened = format!("opened in {:.1} ms on {}", ms(start.elapsed()), client.backend());
    doctor.report(Verdict::Good, "session", &opened, "")?;
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
            doctor.report(Verdict::Good, "server", &finding, "")?;
        }
        Err(error) => {
            let finding = format!("{address}: {error}");
            let advice = "check that the server is running, and check its name, its port and the \
                          firewall";
            doctor.report(Verdict::Bad, "server", &finding, advice)?;
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
            doctor.report(verdict, "version", &finding, &advice)?;
        }
        (None, Ok(_)) => {
            let finding = format!("the version of {address} is unknown");
            doctor.report(Verdict::Unknown, "version", &finding, server.why_no_version())?;
        }
        (None, Err(_)) => {}
    }
    Ok(())
}

/// Checks what the store promises with its present configuration.
async fn promised(client: &Client, doctor: &mut Doctor) -> Result<(), Failure> {
    let durability = match client.durability().await {
        Ok(durability) => durability,
        Err(error) => {
            let advice = match error {
                Error::Denied { .. } => "check that the user in the URL may read the configuration",
                _ => "check the store's log",
            };
            return doctor.report(Verdict::Unknown, "promise", &exit::chain(&error), advice);
        }
    };
    let (exclusive, reasons) = (durability.exclusive, &durability.reasons);
    let (verdict, finding, advice) = promise(exclusive, durability.failover, reasons);
    doctor.report_with_advice(verdict, "promise", &finding, &advice)
}

/// Returns the verdict on a promise, the finding, and the reasons as advice. Exclusive locks can
/// have reasons, too: they are conditions.
fn promise(
    exclusive: bool,
    failover: FailoverBehavior,
    reasons: &[String],
) -> (Verdict, String, String) {
    let (verdict, words, mark) = match exclusive {
        true => (Verdict::Good, "locks are exclusive", "note: "),
        false => (Verdict::Bad, "two clients may hold the same lock in some situations", ""),
    };
    let loss = match failover {
        FailoverBehavior::Continues => "if a server is lost, another one can take over",
        FailoverBehavior::Blocks => "if a server is lost, no lock is granted until it is back",
        _ => "if a server is lost, confirmed grants may be lost",
    };
    let mark = if reasons.is_empty() { "" } else { mark };
    (verdict, format!("{words}; {loss}"), format!("{mark}{}", reasons.join("; ")))
}

async fn check(client: &Client, servers: &[Server], doctor: &mut Doctor) -> Result<(), Failure> {
    let ttl = client.session_ttl();
    let finding = format!("granted {}", humantime::format_duration(ttl));
    let least = Duration::from_secs(2);
    let advice = "the TTL is too short for a busy machine: use ?session_ttl=10s";
    let verdict = if ttl < least { Verdict::Bad } else { Verdict::Good };
    doctor.report(verdict, "ttl", &finding, advice)?;

    promised(client, doctor).await?;

    let mut times = Vec::new();
    for _ in 0..PINGS {
        match client.ping().await {
            Ok(time) => times.push(time),
            Err(error) => {
                let advice = "the session cannot be renewed: check the store's log";
                doctor.report(Verdict::Bad, "round trip", &exit::chain(&error), advice)?;
                return Ok(());
            }
        }
    }
    times.sort_unstable();
    let (middle, most) = (times[PINGS / 2], times[PINGS - 1]);
    let finding =
        format!("median {:.1} ms, maximum {:.1} ms, over {PINGS} requests", ms(middle), ms(most));
    let verdict = if most > ttl / 20 { Verdict::Bad } else { Verdict::Good };
    let advice = "the store is too slow for the TTL: use a longer ?session_ttl, or a nearer store";
    doctor.report(verdict, "round trip", &finding, advice)?;

    rights(client, doctor).await?;
    clock(client, servers, doctor).await
}

/// Returns the name of a lock that no other process uses.
fn own_name() -> String {
    format!("distlock-doctor-{}-{}", std::process::id(), crate::clock::now().as_nanos())
}

async fn rights(client: &Client, doctor: &mut Doctor) -> Result<(), Failure> {
    let namespace = client.namespace();
    let tried = async { client.mutex(own_name()).lock().await?.unlock().await };
    match tried.await {
        Ok(()) => {
            let finding = format!("acquired and released a lock in {namespace}");
            doctor.report(Verdict::Good, "rights", &finding, "")
        }
        Err(error) => {
            let advice = format!(
                "if access was refused, check that the user in the URL may read, write and delete \
                 the entries of locks in {namespace}"
            );
            doctor.report(Verdict::Bad, "rights", &exit::chain(&error), &advice)
        }
    }
}

async fn clock(client: &Client, servers: &[Server], doctor: &mut Doctor) -> Result<(), Failure> {
    let here = SystemTime::now();
    let mut failed = None;
    let there = if client.backend() == StoreKind::ZooKeeper {
        // Its servers record when each key was created.
        let mutex = client.mutex(own_name());
        let looked = async {
            let guard = mutex.lock().await?;
            let since = mutex.holder().await?.and_then(|holder| holder.since());
            guard.unlock().await?;
            Ok::<_, distlock::Error>(since)
        };
        let there = looked.await.unwrap_or_else(|error| {
            failed = Some(exit::chain(&error));
            None
        });
        there.map(|there| (here, there))
    } else {
        servers.iter().find_map(|server| server.clock)
    };
    let Some((here, there)) = there else {
        let (finding, advice) = unknown_time(client.backend(), failed);
        return doctor.report(Verdict::Unknown, "clock", &finding, advice);
    };
    let (ahead, apart) = match there.duration_since(here) {
        Ok(apart) => ("ahead of", apart),
        Err(error) => ("behind", error.duration()),
    };
    let finding = format!("the server is {:.1} s {ahead} this machine", apart.as_secs_f64());
    let verdict = if apart > SKEW { Verdict::Bad } else { Verdict::Good };
    let advice = "synchronize the clocks of all hosts with NTP: locks do not depend on them, but \
                  --once-per depends on the hosts' clocks, and displayed ages on the hosts' or \
                  servers' clocks";
    doctor.report(verdict, "clock", &finding, advice)
}

/// Returns why the server's time is unknown, and advice.
fn unknown_time(store: StoreKind, failed: Option<String>) -> (String, &'static str) {
    let unknown = "the server's time is unknown";
    match (store, failed) {
        (StoreKind::ZooKeeper, Some(error)) => (
            format!("{unknown}: the trial lock failed: {error}"),
            "doctor reads the server's time from a lock that it acquires: see the result of \
             `rights`, and run doctor again",
        ),
        (StoreKind::ZooKeeper, None) => (unknown.to_owned(), "run doctor again"),
        _ => (
            unknown.to_owned(),
            "doctor queries the time only on ZooKeeper, and on etcd without TLS",
        ),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_exclusive_locks_are_shown() {
        let reasons = ["one".to_owned(), "two".to_owned()];
        for (exclusive, reasons, verdict, words, advice) in [
            (true, &[][..], Verdict::Good, "locks are exclusive", ""),
            (true, &reasons[..], Verdict::Good, "locks are exclusive", "note: one; two"),
            (false, &reasons[..], Verdict::Bad, "two clients may hold", "one; two"),
        ] {
            let said = promise(exclusive, FailoverBehavior::Continues, reasons);
            assert_eq!((said.0, said.2.as_str()), (verdict, advice));
            assert!(said.1.starts_with(words) && said.1.ends_with("can take over"), "{said:?}");
        }
    }

    #[test]
    fn unknown_time_has_a_reason_for_each_store() {
        let failed = || Some("refused".to_owned());
        for (store, failed, finding, advice) in [
            (StoreKind::ZooKeeper, failed(), "the trial lock failed: refused", "rights"),
            (StoreKind::ZooKeeper, None, "the server's time is unknown", "run doctor again"),
            (StoreKind::Redis, None, "the server's time is unknown", "only on ZooKeeper"),
        ] {
            let (found, advised) = unknown_time(store, failed);
            assert!(found.ends_with(finding) && advised.contains(advice), "{found}; {advised}");
        }
    }
}
