//! What happens without a request, which no comparison of requests shows.

use crate::{
    Model, Output,
    jute::{Reader, Writer},
    requests::kind,
};

/// A client that shares the model's time.
struct Client {
    number: u64,
    session: i64,
}

/// A packet from the server: its xid, zxid, error, and the rest.
type Packet = (i32, i64, i32, Vec<u8>);

impl Client {
    fn connect(model: &mut Model, timeout: i32) -> Self {
        let number = model.connect();
        let mut request = Writer::default();
        request.int(0).long(0).int(timeout).long(0).buffer(Some(&[0; 16])).flag(false);
        model.receive(number, &request.packet());
        let output = model.take_output();
        let [(to, Output::Bytes(bytes))] = &output[..] else { panic!("{output:?}") };
        let mut reply = Reader::new(&bytes[4..]);
        assert_eq!((*to, reply.int().unwrap(), reply.int().unwrap()), (number, 0, timeout));
        Self { number, session: reply.long().unwrap() }
    }

    fn send(&self, model: &mut Model, xid: i32, kind: i32, body: &Writer) {
        let mut request = Writer::default();
        request.int(xid).int(kind).append(body);
        model.receive(self.number, &request.packet());
    }

    /// Returns the packets of this client, and `true` if the server has closed the connection.
    fn received(&self, model: &mut Model) -> (Vec<Packet>, bool) {
        let (mut packets, mut closed) = (Vec::new(), false);
        for (_, output) in model.take_output().into_iter().filter(|(to, _)| *to == self.number) {
            match output {
                Output::Close => closed = true,
                Output::Bytes(bytes) => {
                    let mut packet = Reader::new(&bytes[4..]);
                    let header = (packet.int(), packet.long(), packet.int());
                    let rest = bytes[20..].to_vec();
                    packets.push((header.0.unwrap(), header.1.unwrap(), header.2.unwrap(), rest));
                }
            }
        }
        (packets, closed)
    }

    /// Creates a node; returns its path, or the error.
    fn create(&self, model: &mut Model, kind: i32, path: &str, flags: i32) -> Result<String, i32> {
        let mut body = Writer::default();
        body.text(path).buffer(Some(b"")).int(1).int(31).text("world").text("anyone").int(flags);
        self.send(model, 1, kind, &body);
        let (packets, _) = self.received(model);
        let (_, _, error, rest) = packets.last().unwrap();
        if *error == 0 { Ok(Reader::new(rest).text().unwrap()) } else { Err(*error) }
    }
}

const EPHEMERAL_SEQUENTIAL: i32 = 3;

#[test]
fn a_silent_session_ends_at_a_tick_and_its_nodes_with_it() {
    let mut model = Model::new(5_300);
    let silent = Client::connect(&mut model, 2_000);
    let other = Client::connect(&mut model, 4_000);
    assert_ne!(silent.session, other.session);
    silent.create(&mut model, kind::CREATE, "/mine", 1).unwrap();
    let mut watch = Writer::default();
    watch.text("/mine").flag(true);
    other.send(&mut model, 2, kind::EXISTS, &watch);
    assert_eq!(other.received(&mut model).0.len(), 1);
    model.set_time(7_999);
    assert_eq!(other.received(&mut model), (Vec::new(), false));
    assert_eq!(model.next_event(), 8_000);
    model.set_time(8_000);
    let output = model.take_output();
    assert!(output.contains(&(silent.number, Output::Close)), "{output:?}");
    let events = output.iter().filter(|(to, _)| *to == other.number).count();
    assert_eq!(events, 1, "{output:?}");
    other.send(&mut model, 3, kind::EXISTS, &watch);
    assert_eq!(other.received(&mut model).0[0].2, crate::requests::code::NO_NODE);
}

#[test]
fn a_container_that_was_used_vanishes_and_its_numbers_begin_again() {
    let mut model = Model::new(0);
    let client = Client::connect(&mut model, 20_000);
    client.create(&mut model, kind::CREATE_CONTAINER, "/queue", 4).unwrap();
    // A new container has some time before it is removed as unused.
    model.set_time(1_500);
    for number in 0..2 {
        let created = client.create(&mut model, kind::CREATE2, "/queue/n", EPHEMERAL_SEQUENTIAL);
        assert_eq!(created, Ok(format!("/queue/n000000000{number}")));
        let mut delete = Writer::default();
        delete.text(&created.unwrap()).int(-1);
        client.send(&mut model, 2, kind::DELETE, &delete);
    }
    model.set_time(2_000);
    let created = client.create(&mut model, kind::CREATE2, "/queue/n", EPHEMERAL_SEQUENTIAL);
    assert_eq!(created, Err(crate::requests::code::NO_NODE));
    client.create(&mut model, kind::CREATE_CONTAINER, "/queue", 4).unwrap();
    let created = client.create(&mut model, kind::CREATE2, "/queue/n", EPHEMERAL_SEQUENTIAL);
    assert_eq!(created, Ok("/queue/n0000000000".to_owned()));
}

#[test]
fn overflowed_counter_keeps_its_value() {
    let mut model = Model::new(0);
    let client = Client::connect(&mut model, 20_000);
    client.create(&mut model, kind::CREATE, "/worn", 0).unwrap();
    model.wear_out("/worn", i32::MAX);
    let mut create = |prefix: &str| {
        client.create(&mut model, kind::CREATE2, prefix, EPHEMERAL_SEQUENTIAL).unwrap()
    };
    assert_eq!(create("/worn/a"), "/worn/a2147483647");
    assert_eq!(create("/worn/b"), "/worn/b2147483647");
}
