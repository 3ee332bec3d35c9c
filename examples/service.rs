//! A service that works under a lock, with an HTTP health check and a graceful shutdown.
//!
//! Run `cargo run --example service`, use `curl -i` with the printed address, and stop the service
//! with `kill`.

use std::{io, time::Duration};

use distlock::{Client, Health};
use tokio::{io::AsyncReadExt, io::AsyncWriteExt, net, select, signal::unix, time::sleep};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder("memory://service").connect_lazy()?; // starts before its store
    let mut sigterm = unix::signal(unix::SignalKind::terminate())?;
    let probes = net::TcpListener::bind("127.0.0.1:0").await?;
    println!("probes: http://{}", probes.local_addr()?);
    tokio::spawn(work(client.clone()));
    loop {
        select! {
            probe = probes.accept() => drop(tokio::spawn(reply(probe?.0, client.health()))),
            _ = sigterm.recv() => break,
        }
    }
    Ok(client.shutdown(Duration::from_secs(20)).await?) // waits for the current batch
}

async fn work(client: Client) {
    while !client.is_closed() {
        let batch = client.mutex("import").run(async |guard| guard.fencing_token()).await;
        println!("batch: {batch:?}"); // an error after SIGTERM
        sleep(Duration::from_millis(100)).await; // until the next batch or the next attempt
    }
}

async fn reply(mut probe: net::TcpStream, health: Health) -> io::Result<()> {
    let status = if health == Health::Closed { 503 } else { 200 };
    let _request = probe.read(&mut [0; 1024]).await?;
    probe.write_all(format!("HTTP/1.1 {status} \r\n\r\n").as_bytes()).await
}
