//! Metrics for Prometheus, and a log on standard output.
//!
//! `cargo run --package distlock-metrics-example [-- ADDRESS [URL]]`
//!
//! Some workers contend for a few locks. Without a URL, the store is in memory. In this case, the
//! example deletes the key of a held lock from time to time, so that the metrics show a loss. Read
//! the metrics with `curl http://127.0.0.1:9187/metrics`. Let Prometheus scrape that address, and
//! import `docs/ops/grafana-dashboard.json` into Grafana.

use std::{error::Error, io, time::Duration};

use distlock::{Client, LockGuard, memory::Space};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::sleep,
};

/// The buckets in seconds. Quantiles of several processes cannot be added up, but buckets can.
const BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9187".to_owned());
    let url = arguments.next().unwrap_or_else(|| "memory://metrics".to_owned());

    tracing_subscriber::fmt().init();
    let prometheus =
        PrometheusBuilder::new().with_recommended_naming(true).set_buckets(&BUCKETS)?;
    let metrics = prometheus.install_recorder()?;

    // `order-4711` is counted as `order`: one label per order would be too many.
    let kind = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    for worker in 0..4 {
        let builder = Client::builder(&url).owner(format!("worker-{worker}")).metric_label(kind);
        drop(tokio::spawn(work(builder.connect().await?)));
    }
    let listener = TcpListener::bind(&address).await?;
    println!("http://{address}/metrics");
    serve(listener, metrics).await
}

/// Acquires one lock after the other.
async fn work(client: Client) {
    loop {
        if let Err(error) = turn(&client).await {
            eprintln!("{error}");
            sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn turn(client: &Client) -> distlock::Result<()> {
    if fastrand::u8(..10) == 0 {
        let leadership = client.election("scheduler").campaign(client.owner()).await?;
        sleep(Duration::from_millis(200)).await;
        leadership.resign().await?;
    }
    let name = ["stock", "order-4711", "order-4712", "report"][fastrand::usize(..4)];
    let guard = client.mutex(name).lock_timeout(Duration::from_millis(300)).await?;
    let Some(guard) = guard else { return Ok(()) };
    if fastrand::u8(..100) == 0 {
        meddle(&guard);
    }
    guard.run_owned(sleep(Duration::from_millis(fastrand::u64(1..60)))).await
}

/// Deletes the key of a held lock, as an operator might by mistake.
fn meddle(guard: &LockGuard) {
    Space::named("metrics").delete(guard.key());
}

/// Replies to every request with the metrics.
async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> Result<(), Box<dyn Error>> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let metrics = metrics.clone();
        drop(tokio::spawn(async move {
            if stream.read(&mut [0; 4096]).await? == 0 {
                return Ok(());
            }
            // Without this upkeep, the values of histograms accumulate.
            metrics.run_upkeep();
            let body = metrics.render();
            let kind = "Content-Type: text/plain; version=0.0.4";
            let head =
                format!("HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            io::Result::Ok(())
        }));
    }
}
