//! What a server shows of the commands that it runs.

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use crate::common::{SOON, redis::OPERATOR};

/// An operator's connection that monitors a server.
pub(crate) struct Monitor(BufReader<TcpStream>);

impl Monitor {
    /// Monitors a server from now on.
    pub(crate) async fn start(url: &str) -> Self {
        let address = url.rsplit('@').next().expect("a server");
        let stream = TcpStream::connect(address).await.expect("connected");
        let mut monitor = Self(BufReader::new(stream));
        let hello = format!("AUTH {} {}\r\nMONITOR\r\n", OPERATOR.0, OPERATOR.1);
        monitor.0.write_all(hello.as_bytes()).await.expect("sent");
        for command in ["AUTH", "MONITOR"] {
            let reply = timeout(SOON, monitor.line()).await.expect("the server replies");
            assert_eq!(reply, "+OK\r\n", "{command}");
        }
        monitor
    }

    /// Returns the next line.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.expect("received");
        assert!(read > 0, "the server has closed the connection");
        line
    }
}
