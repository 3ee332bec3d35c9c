//! Connections to the simulated servers.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{runtime::clock::sleep, scheduler};

/// The client's end of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    link: u64,
}

pub(crate) async fn tcp(_: &str) -> io::Result<Stream> {
    let (process, way) = scheduler::with(|world| {
        let process = world.scheduler.process();
        let blocked = world.processes[process].blocked.saturating_sub(world.now());
        (process, world.latency() + blocked)
    });
    sleep(way).await;
    let link = scheduler::with(|world| world.connect(process));
    // The connection is established when the server has confirmed it.
    let way = scheduler::with(|world| world.latency());
    sleep(way).await;
    match link {
        Some(link) => Ok(Stream { link }),
        None => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        scheduler::with(|world| world.read(self.link, context.waker(), into)).map(Ok)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = scheduler::with(|world| world.write(self.link, bytes));
        Poll::Ready(if sent { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        scheduler::try_with(|world| world.hang_up(self.link));
    }
}
