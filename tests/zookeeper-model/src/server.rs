//! Serves a model on a port of this machine, by the machine's clock.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{Model, Output};

/// A server that runs until the process exits.
#[derive(Clone, Debug)]
pub struct Front {
    /// Its address.
    pub address: SocketAddr,
    events: Sender<Event>,
}

enum Event {
    Came(TcpStream, Sender<u64>),
    Read(u64, Vec<u8>),
    Went(u64),
    /// A change that no client can make.
    Do(Box<dyn FnOnce(&mut Model) + Send>),
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
        thread::Builder::new().name("model".into()).spawn(move || serve(&come))?;
        let accepted = events.clone();
        thread::Builder::new().name("model-accepts".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let events = accepted.clone();
                thread::spawn(move || carry(stream, &events));
            }
        })?;
        Ok(Self { address, events })
    }

    /// Changes the model as no client can, before it serves later requests.
    pub fn with(&self, act: impl FnOnce(&mut Model) + Send + 'static) {
        // The serving thread runs until the process exits.
        let _served = self.events.send(Event::Do(Box::new(act)));
    }
}

/// Forwards the requests of a client.
fn carry(stream: TcpStream, events: &Sender<Event>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = stream.try_clone().ok()?;
    let (numbers, number) = channel();
    events.send(Event::Came(stream, numbers)).ok()?;
    let number = number.recv().ok()?;
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = reader.read(&mut bytes) {
        events.send(Event::Read(number, bytes[..read].to_vec())).ok()?;
    }
    events.send(Event::Went(number)).ok()
}

/// Writes the packets of a client. A client that does not read delays no other.
fn deliver(mut stream: TcpStream, packets: &Receiver<Vec<u8>>) {
    for packet in packets {
        if stream.write_all(&packet).is_err() {
            break;
        }
    }
    // The client may have disconnected first.
    let _gone = stream.shutdown(Shutdown::Both);
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Serves all clients, one request at a time.
fn serve(events: &Receiver<Event>) {
    let mut model = Model::new(now());
    let mut clients: HashMap<u64, Sender<Vec<u8>>> = HashMap::new();
    loop {
        let wait = u64::try_from(model.next_event() - now()).unwrap_or(0);
        let event = events.recv_timeout(Duration::from_millis(wait));
        model.set_time(now());
        match event {
            Ok(Event::Came(stream, numbers)) => {
                let number = model.connect();
                let (packets, sent) = channel();
                thread::spawn(move || deliver(stream, &sent));
                clients.insert(number, packets);
                // The client may have disconnected already.
                let _gone = numbers.send(number);
            }
            Ok(Event::Went(number)) => {
                clients.remove(&number);
                model.disconnect(number);
            }
            Ok(Event::Read(number, bytes)) => model.receive(number, &bytes),
            Ok(Event::Do(act)) => act(&mut model),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for (number, output) in model.take_output() {
            match output {
                Output::Bytes(bytes) => {
                    // The reading thread notices when the client disconnects.
                    clients.get(&number).map(|client| client.send(bytes));
                }
                Output::Close => _ = clients.remove(&number),
            }
        }
    }
}
