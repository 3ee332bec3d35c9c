//! The demonstration: a grant is lost in a power cut if the server does not flush it.

use std::time::Duration;

use distlock::Client;
use distlock_testkit::{Result, child::Child, orders, proxy::Proxy, retry::retried};
use fastrand::Rng;

use crate::{disk::Cut, host::Host, machine::Machine};

/// Longer than a restart. On Redis, the first client of an empty server waits for as long.
const TTL: Duration = Duration::from_secs(10);

const PATIENCE: Duration = Duration::from_secs(60);

/// The lock.
const LOCK: &str = "held";

/// Acquires a lock, cuts the power at once, and returns `true` if the server still has the holder
/// afterwards.
pub(crate) async fn keeps_a_grant(machine: &mut Machine) -> Result<bool> {
    machine.begin().await?;
    machine.client().await?.close().await?;
    let proxy = Proxy::start(machine.address(), None).await;
    let url = machine.setup.url(proxy.address.port());
    let holder = Client::builder(url).session_ttl(TTL).connect().await?;
    let guard = holder.mutex(LOCK).lock().await?;
    // The holder neither renews nor releases after the restart.
    drop(proxy);
    machine.cut_power(Cut::Forget, &mut Rng::with_seed(0)).await?;
    machine.turn_on().await?;
    let client = machine.client().await?;
    let found = retried(PATIENCE, || async { Ok(client.mutex(LOCK).holder().await?) }).await?;
    client.close().await?;
    drop(guard);
    Ok(found.is_some())
}

/// Does the same on SQLite, where the holder's process ends with its host.
pub(crate) async fn file_keeps_a_grant(host: &mut Host) -> Result<bool> {
    host.begin()?;
    let url = host.url();
    let start =
        |role: &str| -> Result<Child> { Ok(Child::start(Child::again()?.args([role, &url]))?) };
    let mut holder = start("hold")?;
    holder.until(|line| (line == HELD).then_some(())).await?;
    holder.kill().await?;
    host.cut_power(Cut::Forget, &mut Rng::with_seed(0))?;
    let mut look = start("look")?;
    let found = look.until(|line| Some(line == HELD)).await?;
    look.wait().await?;
    Ok(found)
}

const HELD: &str = "held";

/// The holder's process on SQLite.
pub(crate) async fn hold(url: &str) -> Result<()> {
    let mut ends = orders::orders_for_life();
    let client = Client::builder(url).session_ttl(TTL).connect().await?;
    // The first lock of a process is flushed, because it begins a block of tokens.
    client.mutex("first").lock().await?.unlock().await?;
    let _guard = client.mutex(LOCK).lock().await?;
    orders::say(HELD)?;
    ends.recv().await;
    Ok(())
}

/// The process on SQLite that queries the holder.
pub(crate) async fn look(url: &str) -> Result<()> {
    let holder = Client::connect(url).await?.mutex(LOCK).holder().await?;
    Ok(orders::say(if holder.is_some() { HELD } else { "free" })?)
}
