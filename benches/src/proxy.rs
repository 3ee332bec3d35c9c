//! A proxy that delays: what comes in goes out so much later, in order, and as much of it as comes.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{Result, link::mark};

/// Carries until it is told to finish. The mark has the addresses that stand for the servers.
pub(crate) async fn run(servers: &[String], delay: Duration) -> Result<()> {
    let mut addresses = Vec::new();
    for server in servers {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        addresses.push(listener.local_addr()?.to_string());
        let server = server.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connection(client, server.clone(), delay));
            }
        });
    }
    mark(&addresses.join(",")).await.map(drop)
}

async fn connection(client: TcpStream, server: String, delay: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    // Or the kernel would hold small packets back until earlier ones are acknowledged.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::spawn(pump(from_client, to_server, delay));
    tokio::spawn(pump(from_server, to_client, delay));
    Ok(())
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    // Without a bound: what is on its way must not hold up what follows.
    let (sender, mut arrived) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    while let Some((due, bytes)) = arrived.recv().await {
        sleep_until(due).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    // The end is passed on as late as the rest.
    let _ = to.shutdown().await;
}
