//! A TCP connection whose end is noticed.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// A connection that is silent is looked for by the kernel after this time, and again at this
/// interval: a way that drops all without a word is noticed within half a minute.
const IDLE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_secs(5);
const TIMES: u32 = 3;

/// A connection that sends at once what it is given, and whose end is noticed.
pub(crate) async fn tcp(endpoint: &str) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect(endpoint).await?;
    tcp.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(AGAIN).with_retries(TIMES);
    SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
    Ok(tcp)
}
