//! Unrelated writes: other clients' work on the same etcd.

use std::time::Duration;

use etcd_client::Client;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{Result, link::mark};

/// Writes until it is ordered to finish, at a steady rate even if the server does not keep up.
pub(crate) async fn run(servers: &[String], per_second: u32) -> Result<()> {
    let client = Client::connect(servers, None).await?;
    let load = async {
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (start, mut written) = (Instant::now(), 0_u64);
        loop {
            ticks.tick().await;
            let due = (start.elapsed().as_secs_f64() * f64::from(per_second)) as u64;
            for number in written..due {
                let mut client = client.kv_client();
                tokio::spawn(async move {
                    let _ = client
                        .put(format!("/bench-load/{}", number % 1000), "unrelated", None)
                        .await;
                });
            }
            written = due;
        }
    };
    tokio::select! {
        () = load => Ok(()),
        answer = mark("loading") => answer.map(drop),
    }
}
