//! The model behind a port of this machine, by its clock.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Model, Requests};

/// A server that lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// Where it is.
    pub address: SocketAddr,
}

enum Event {
    Came(TcpStream, Sender<u64>),
    Read(u64, Vec<u8>),
    Went(u64),
}

impl Front {
    /// Starts one on a free port.
    ///
    /// # Errors
    ///
    /// There is no port, or no thread.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (events, come) = channel();
        thread::Builder::new().name("model".into()).spawn(move || serve(&come))?;
        thread::Builder::new().name("model-accepts".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let events = events.clone();
                thread::spawn(move || carry(stream, &events));
            }
        })?;
        Ok(Self { address })
    }
}

/// Passes on what a client sends.
fn carry(stream: TcpStream, events: &Sender<Event>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = stream.try_clone().ok()?;
    let (told, number) = channel();
    events.send(Event::Came(stream, told)).ok()?;
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

/// Replies to all clients, one after the other.
fn serve(events: &Receiver<Event>) -> Option<()> {
    let mut model = Model::new(now())?;
    let mut clients: HashMap<u64, (TcpStream, Requests)> = HashMap::new();
    for event in events {
        match event {
            Event::Came(stream, told) => {
                let number = model.connect();
                clients.insert(number, (stream, Requests::default()));
                // It may have gone already.
                let _gone = told.send(number);
            }
            Event::Went(number) => {
                clients.remove(&number);
                model.disconnect(number);
            }
            Event::Read(number, bytes) => {
                let Some((_, requests)) = clients.get_mut(&number) else { continue };
                requests.add(&bytes);
                let mut replies: HashMap<u64, Vec<u8>> = HashMap::new();
                while let Some(request) = requests.next_whole() {
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
                    if let Some((stream, _)) = clients.get_mut(&to) {
                        // Its end is told by the one who reads.
                        let _gone = stream.write_all(&bytes);
                    }
                }
            }
        }
    }
    Some(())
}
