//! Serves a model on a port of this machine, by the machine's clock.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{Model, Requests};

/// How often idle connections are searched for.
const TICK: Duration = Duration::from_millis(100);

struct Client {
    stream: TcpStream,
    requests: Requests,
    active: Instant,
}

/// A server that runs until the process exits.
#[derive(Clone, Debug)]
pub struct Front {
    /// Its address.
    pub address: SocketAddr,
    events: Sender<Event>,
}

type Change = Box<dyn FnOnce(&mut Model) + Send>;

enum Event {
    Came(TcpStream, Sender<u64>),
    Read(u64, Vec<u8>),
    Went(u64),
    /// Ends the process; another one starts after the change.
    Ends(Change, Sender<()>),
    Changes(Change, Sender<()>),
}

impl Front {
    /// Starts a server on a free port.
    ///
    /// # Errors
    ///
    /// Fails if no port or no thread is available.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (events, come) = channel();
        let accepted = events.clone();
        thread::Builder::new().name("model".into()).spawn(move || serve(address, &come))?;
        thread::Builder::new().name("model-accepts".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let events = accepted.clone();
                thread::spawn(move || carry(stream, &events));
            }
        })?;
        Ok(Self { address, events })
    }

    /// Changes the running server.
    pub fn change(&self, change: impl FnOnce(&mut Model) + Send + 'static) {
        self.order(|done| Event::Changes(Box::new(change), done));
    }

    /// Closes all connections, applies the change, and starts the server again.
    pub fn end(&self, change: impl FnOnce(&mut Model) + Send + 'static) {
        self.order(|done| Event::Ends(Box::new(change), done));
    }

    fn order(&self, event: impl FnOnce(Sender<()>) -> Event) {
        let (done, is_done) = channel();
        // The server's thread ends only with a panic, which the tests then report.
        let _sent = self.events.send(event(done));
        let _done = is_done.recv();
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

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Serves all clients, one request at a time.
fn serve(address: SocketAddr, events: &Receiver<Event>) -> Option<()> {
    let mut model = Model::new(now())?;
    model.set_name(&address.to_string());
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut looked = Instant::now();
    loop {
        let event = events.recv_timeout(TICK);
        if looked.elapsed() >= TICK {
            end_idle(&model, &clients);
            looked = Instant::now();
        }
        let event = match event {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Some(()),
        };
        match event {
            Event::Changes(change, done) => {
                change(&mut model);
                let _gone = done.send(());
            }
            Event::Ends(change, done) => {
                model.set_time(now());
                change(&mut model);
                for (_, client) in clients.drain() {
                    let _gone = client.stream.shutdown(Shutdown::Both);
                }
                let _gone = done.send(());
            }
            Event::Came(stream, sender) => {
                let number = model.connect();
                let requests = Requests::default();
                clients.insert(number, Client { stream, requests, active: Instant::now() });
                // The client may have disconnected already.
                let _gone = sender.send(number);
            }
            Event::Went(number) => {
                clients.remove(&number);
                model.disconnect(number);
            }
            Event::Read(number, bytes) => {
                let Some(client) = clients.get_mut(&number) else { continue };
                client.active = Instant::now();
                client.requests.add(&bytes);
                let mut replies: HashMap<u64, Vec<u8>> = HashMap::new();
                while let Some(request) = client.requests.next_whole() {
                    model.set_time(now());
                    let reply = model.run(number, &request);
                    let own = replies.entry(number).or_default();
                    if let Some(reply) = reply {
                        reply.write(model.is_newer(number), own);
                    }
                    for (to, push) in model.take_pushes() {
                        push.write(model.is_newer(to), replies.entry(to).or_default());
                    }
                }
                for (to, bytes) in replies {
                    if let Some(client) = clients.get_mut(&to) {
                        // The reading thread reports the end of the connection.
                        let _gone = client.stream.write_all(&bytes);
                    }
                }
            }
        }
    }
}

/// Closes the connections that exceed the setting `timeout`.
fn end_idle(model: &Model, clients: &HashMap<u64, Client>) {
    for (number, client) in clients {
        if model.is_idle(*number, client.active.elapsed().as_secs()) {
            let _gone = client.stream.shutdown(Shutdown::Both);
        }
    }
}
