//! A TCP connection that detects a dead peer.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The kernel probes a silent connection after `IDLE`, and then every `AGAIN`. A connection that
/// silently drops all packets is detected within 30 s.
const IDLE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_secs(5);
const TIMES: u32 = 3;

/// A TCP connection that detects a dead peer.
pub(crate) async fn tcp(endpoint: &str) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect(endpoint).await?;
    tcp.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(AGAIN).with_retries(TIMES);
    SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
    Ok(tcp)
}
