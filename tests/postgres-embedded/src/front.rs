//! Serves PostgreSQL on a port of this machine.

use std::{
    io::{self, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use crate::Server;

/// How often connections that wait for others are checked.
const TICK: Duration = Duration::from_millis(5);

/// A server that runs until the last clone is dropped: it takes more than 100 MB.
#[derive(Clone, Debug)]
pub struct Front {
    /// Its address.
    pub address: SocketAddr,
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    events: Sender<Event>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The server may have failed.
        let _sent = self.events.send(Event::Ends);
    }
}

type Change = Box<dyn FnOnce(&mut Server) + Send>;

enum Event {
    Came(TcpStream, Sender<u64>),
    Read(u64, Vec<u8>),
    Went(u64),
    Changes(Change),
    Ends,
}

impl Front {
    /// Starts a server on a free port, and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// Fails if no port or no thread is available, or PostgreSQL does not start.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (events, come) = channel();
        let accepted = events.clone();
        let (starts, started) = channel();
        // On a thread of its own: PostgreSQL may not be called by the threads of a runtime.
        thread::Builder::new().name("postgres".into()).spawn(move || {
            let mut server = match Server::new() {
                Ok(server) => server,
                Err(error) => return drop(starts.send(Err(error))),
            };
            drop(starts.send(Ok(())));
            if let Err(error) = serve(&mut server, &come) {
                eprintln!("the embedded PostgreSQL has failed: {error}");
            }
        })?;
        started.recv().map_err(io::Error::other)??;
        thread::Builder::new().name("postgres-accepts".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let events = accepted.clone();
                thread::spawn(move || carry(stream, &events));
            }
        })?;
        Ok(Self { address, handle: Arc::new(Handle { events }) })
    }

    /// Does something to the server, and waits until it is done.
    ///
    /// # Errors
    ///
    /// Fails if the server has failed.
    pub fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Server) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, is_done) = channel();
        let change = move |server: &mut Server| drop(done.send(change(server)));
        let ended = |_| io::Error::other("the server has ended");
        self.handle.events.send(Event::Changes(Box::new(change))).map_err(ended)?;
        is_done.recv().map_err(|_| io::Error::other("the server has ended"))?
    }
}

/// Forwards the requests of a client.
fn carry(stream: TcpStream, events: &Sender<Event>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = stream.try_clone().ok()?;
    let (sender, number) = channel();
    events.send(Event::Came(stream, sender)).ok()?;
    let number = number.recv().ok()?;
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = reader.read(&mut bytes) {
        events.send(Event::Read(number, bytes[..read].to_vec())).ok()?;
    }
    events.send(Event::Went(number)).ok()
}

/// Serves all connections.
fn serve(server: &mut Server, events: &Receiver<Event>) -> io::Result<()> {
    let mut waits = false;
    loop {
        let event = match waits {
            true => events.recv_timeout(TICK),
            false => events.recv().map_err(RecvTimeoutError::from),
        };
        match event {
            Ok(Event::Came(stream, sender)) => drop(sender.send(server.come(stream))),
            Ok(Event::Read(number, bytes)) => server.read(number, &bytes)?,
            Ok(Event::Went(number)) => server.went(number)?,
            Ok(Event::Changes(change)) => change(server),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Ends) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        waits = server.run()?;
    }
}
