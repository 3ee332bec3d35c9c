//! The two scripts of an uncontended distlock lock, sent by the client crate alone: no lock on
//! Redis made of these scripts is faster. They are recorded from a client's requests to the server.

use distlock::Client;
use futures_util::stream::{Stream, StreamExt};
use redis::{Cmd, FromRedisValue, Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use crate::{
    Result,
    backend::{Backend, url_of},
    counters::TIME_LIMIT,
};

/// The index of the first script argument: after the command, its digest, and four keys.
const ARGUMENTS: usize = 7;
/// The argument of the unlock script that is the entry's number.
const NUMBER: usize = ARGUMENTS + 5;

/// The scripts of one name.
pub(crate) struct Scripts {
    /// All contenders share it, as distlock's contenders do.
    connection: MultiplexedConnection,
    lock: Vec<Vec<u8>>,
    unlock: Vec<Vec<u8>>,
    /// Of the current entry.
    number: u64,
}

impl Scripts {
    /// The client's session must live for as long as the scripts are used.
    pub(crate) async fn record(
        client: &Client,
        name: &str,
        server: &str,
        connection: MultiplexedConnection,
    ) -> Result<Self> {
        let mutex = client.mutex(name);
        // Then the server knows the scripts.
        mutex.lock().await?.unlock().await?;
        let url = url_of(Backend::Redis, &[server.to_owned()]);
        let monitor = redis::Client::open(url)?.get_async_monitor().await?;
        let mut seen = Box::pin(monitor.into_on_message::<String>());
        let guard = mutex.lock().await?;
        let lock = next_script(&mut seen, 6, name).await?;
        guard.unlock().await?;
        let unlock = next_script(&mut seen, 3, name).await?;
        Ok(Self { connection, lock, unlock, number: 0 })
    }

    pub(crate) async fn lock(&mut self) -> Result<()> {
        let outcomes = ask(&mut self.connection, &self.lock).await?;
        // In the first row of the first outcome.
        let [_, row, ..] = array(outcomes.first())? else { return Err("not locked".into()) };
        self.number = u64::from_redis_value_ref(array(Some(row))?.first().ok_or("no number")?)?;
        Ok(())
    }

    pub(crate) async fn unlock(&mut self) -> Result<()> {
        let number = self.unlock.get_mut(NUMBER).ok_or("no number")?;
        *number = self.number.to_string().into_bytes();
        let outcomes = ask(&mut self.connection, &self.unlock).await?;
        match array(outcomes.first())? {
            [Value::Int(1)] => Ok(()),
            _ => Err("not unlocked".into()),
        }
    }
}

/// Returns the next script with a directory of this name at this index.
async fn next_script(
    seen: &mut (impl Stream<Item = String> + Unpin),
    place: usize,
    name: &str,
) -> Result<Vec<Vec<u8>>> {
    let next = async {
        while let Some(line) = seen.next().await {
            let words = words(&line);
            let directory = words.get(ARGUMENTS + place - 1);
            if words.first().is_some_and(|command| command.eq_ignore_ascii_case(b"evalsha"))
                && directory.is_some_and(|directory| directory.ends_with(name.as_bytes()))
            {
                return Ok(words);
            }
        }
        Err("the server sends nothing more".into())
    };
    timeout(TIME_LIMIT, next).await?
}

/// The quoted words of a line of `MONITOR`.
fn words(line: &str) -> Vec<Vec<u8>> {
    let (mut words, mut letters) = (Vec::new(), line.bytes());
    while letters.any(|letter| letter == b'"') {
        let mut word = Vec::new();
        while let Some(letter) = letters.next().filter(|letter| *letter != b'"') {
            word.push(match letter {
                b'\\' => match letters.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    Some(b'x') => {
                        let mut digit = || {
                            let digit = char::from(letters.next().unwrap_or_default());
                            digit.to_digit(16).unwrap_or_default() as u8
                        };
                        digit() << 4 | digit()
                    }
                    Some(other) => other,
                    None => break,
                },
                other => other,
            });
        }
        words.push(word);
    }
    words
}

async fn ask(connection: &mut MultiplexedConnection, words: &[Vec<u8>]) -> Result<Vec<Value>> {
    let mut asked = Cmd::new();
    for word in words {
        asked.arg(word.as_slice());
    }
    let reply: Value = asked.query_async(connection).await?;
    let [_, word, outcomes @ ..] = array(Some(&reply))? else { return Err("no reply".into()) };
    match String::from_redis_value_ref(word)?.as_str() {
        "ok" => Ok(outcomes.to_vec()),
        other => Err(format!("the script returned {other}").into()),
    }
}

fn array(value: Option<&Value>) -> Result<&[Value]> {
    match value {
        Some(Value::Array(values)) => Ok(values),
        other => Err(format!("no array: {other:?}").into()),
    }
}
