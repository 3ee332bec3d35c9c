//! How fast one task's pairs are by several ways to a store.

use std::time::Instant;

use distlock::Client;

use crate::Result;

const PAIRS: usize = 1_000;
const ROUNDS: usize = 7;

/// Prints the pairs per second for each URL, in alternating rounds.
pub(crate) async fn look(urls: &[String]) -> Result<bool> {
    let mut clients = Vec::new();
    for url in urls {
        clients.push(Client::connect(url.as_str()).await?);
    }
    let mut rates = vec![Vec::new(); urls.len()];
    for _ in 0..ROUNDS {
        for (client, rates) in clients.iter().zip(&mut rates) {
            let mutex = client.mutex("ways");
            let began = Instant::now();
            for _ in 0..PAIRS {
                mutex.lock().await?.unlock().await?;
            }
            rates.push(PAIRS as f64 / began.elapsed().as_secs_f64());
        }
    }
    println!("| way | pairs/s: median | least | most |\n|---:|---:|---:|---:|");
    for (at, rates) in rates.iter_mut().enumerate() {
        rates.sort_by(f64::total_cmp);
        let [least, .., most] = rates[..] else { return Err("nothing was measured".into()) };
        // A URL may contain a password.
        println!("| {} | {:.0} | {least:.0} | {most:.0} |", at + 1, rates[ROUNDS / 2]);
    }
    for client in clients {
        client.close().await?;
    }
    Ok(true)
}
