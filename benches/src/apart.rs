//! Simulates a network between servers: every message is delayed.
//!
//! With threads instead of tasks: a runtime's timers count in whole milliseconds, but half a
//! millisecond must be possible.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    str::FromStr,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::Result;

/// The round-trip time between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Between {
    micros: u32,
}

impl Between {
    pub(crate) fn round_trip(self) -> Duration {
        Duration::from_micros(self.micros.into())
    }
}

impl FromStr for Between {
    type Err = String;

    fn from_str(time: &str) -> std::result::Result<Self, String> {
        let millis = time.strip_suffix("ms").and_then(|number| number.parse::<f64>().ok());
        let millis = millis.filter(|millis| (0.0..=1000.0).contains(millis));
        let millis = millis.ok_or_else(|| format!("invalid time: {time:?}; example: 0.5ms"))?;
        Ok(Self { micros: (millis * 1e3).round() as u32 })
    }
}

/// By how much the kernel may let a thread oversleep by default.
const LATE: Duration = Duration::from_micros(50);

/// Prints the proxies' addresses in the order of the servers, and forwards until it is ended. The
/// servers need not run yet.
pub(crate) fn carry(servers: &[String], between: Between) -> Result<()> {
    let way = between.round_trip() / 2;
    let (mut addresses, mut carrying) = (Vec::new(), Vec::new());
    for server in servers {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        addresses.push(listener.local_addr()?.to_string());
        let server = server.clone();
        carrying.push(thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || connect(client, &server, way));
            }
        }));
    }
    println!("{}", addresses.join(","));
    for one in carrying {
        one.join().map_err(|_| "a proxy has ended")?;
    }
    Ok(())
}

/// A client whose server cannot be reached is disconnected.
fn connect(client: TcpStream, server: &str, way: Duration) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    // Otherwise the kernel would hold small packets back until earlier ones are acknowledged.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    pump(client.try_clone()?, server.try_clone()?, way);
    pump(server, client, way);
    Ok(())
}

/// Data on its way does not delay later data.
fn pump(mut from: TcpStream, to: TcpStream, way: Duration) {
    let (sender, arrived) = channel();
    thread::spawn(move || write(to, &arrived, way));
    thread::spawn(move || read(&mut from, &sender));
}

type Arrival = (Instant, Vec<u8>);

/// Ends with the input: dropping the sender notifies the writer.
fn read(from: &mut TcpStream, arrivals: &Sender<Arrival>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if arrivals.send((Instant::now(), bytes[..count].to_vec())).is_err() {
            break;
        }
    }
}

fn write(mut to: TcpStream, arrivals: &Receiver<Arrival>, way: Duration) {
    for (at, chunk) in arrivals {
        let due = (at + way).saturating_duration_since(Instant::now());
        if due > LATE {
            thread::sleep(due - LATE);
        }
        if to.write_all(&chunk).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
