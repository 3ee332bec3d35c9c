//! A job that every host starts by its own clock, and that runs once per period.
//!
//! `cargo run --example cron`

use std::time::Duration;

use distlock::Client;
use tokio::{task::JoinSet, time::interval};

const PERIOD: Duration = Duration::from_millis(500); // or an hour

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let mut hosts = JoinSet::new();
    for host in ["one", "two", "three"] {
        hosts.spawn(fire(host));
    }
    let ran: Vec<u32> = hosts.join_all().await.into_iter().collect::<distlock::Result<_>>()?;
    println!("runs per host in five periods: {ran:?}");
    assert!((4..=6).contains(&ran.iter().sum::<u32>()));
    Ok(())
}

async fn fire(host: &str) -> distlock::Result<u32> {
    let client = Client::builder("memory://cron").owner(host).connect().await?;
    let (job, mut timer, mut ran) = (client.mutex("report"), interval(PERIOD), 0);
    for _ in 0..5 {
        timer.tick().await;
        let work = async |_: &_| println!("{host} writes the report");
        ran += u32::from(job.run_once_per(PERIOD, work).await?.is_some());
    }
    client.close().await?;
    Ok(ran)
}
