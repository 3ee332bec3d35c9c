//! The cost of idle clients for two that alternate at one lock.

use std::time::Instant;

use distlock::Client;

use crate::{Result, args::Bench, backend::url_of};

/// Handovers per measurement, and measurements for each number of idle clients.
const HANDOVERS: usize = 400;
const REPEATS: usize = 7;

/// Prints how long a handover takes on each backend, by the number of idle clients.
pub(crate) async fn look(bench: &Bench, idle: &[usize]) -> Result<bool> {
    println!("| store | idle clients | ms a handover: median | least | most |");
    println!("|---|---:|---:|---:|---:|");
    for backend in &bench.backends {
        let url = url_of(*backend, bench.single(*backend));
        let pair = [Client::connect(&*url).await?, Client::connect(&*url).await?];
        let mut others = Vec::new();
        for count in idle {
            while others.len() < *count {
                others.push(Client::connect(&*url).await?);
            }
            let mut times = Vec::new();
            for _ in 0..REPEATS {
                times.push(handover(&pair).await?);
            }
            times.sort_by(f64::total_cmp);
            let [least, .., most] = times[..] else { return Err("nothing was measured".into()) };
            let median = times[REPEATS / 2];
            println!("| {} | {count} | {median:.2} | {least:.2} | {most:.2} |", backend.title());
        }
    }
    Ok(true)
}

/// The time of a handover in milliseconds.
async fn handover(pair: &[Client; 2]) -> Result<f64> {
    let began = Instant::now();
    let turns = |client: &Client| {
        let mutex = client.mutex("idle-clients");
        async move {
            for _ in 0..HANDOVERS / 2 {
                mutex.lock().await?.unlock().await?;
            }
            Ok::<_, distlock::Error>(())
        }
    };
    let (one, other) = tokio::join!(turns(&pair[0]), turns(&pair[1]));
    one?;
    other?;
    Ok(began.elapsed().as_secs_f64() * 1e3 / HANDOVERS as f64)
}
