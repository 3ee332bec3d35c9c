//! Requests that a connection sends at once, and the replies to them.

use std::time::Duration;

use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};

use super::call::Asked;

/// Scripts, and the commands that follow them.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) scripts: Vec<Asked<'a>>,
    /// The script that runs after the others.
    pub(super) last: Option<Asked<'a>>,
    pub(super) then: Vec<Cmd>,
}

impl Batch<'_> {
    fn asked(&self) -> impl Iterator<Item = &Asked<'_>> {
        self.scripts.iter().chain(&self.last)
    }

    /// Returns the reply to each request. A server that has forgotten a script reports that before
    /// it runs anything. The forgotten scripts are then sent again, followed by everything that has
    /// to run after them.
    pub(super) async fn run(
        &self,
        mut connection: MultiplexedConnection,
        keys: &[String],
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let hashes = self.asked().map(|asked| asked.command(keys, false));
        let mut replies = send(&mut connection, hashes.chain(self.then.iter().cloned())).await?;
        let scripts = self.asked().count();
        let is_forgotten = |place: &usize| {
            let reply: &RedisResult<Value> = &replies[*place];
            reply.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT"))
        };
        let forgotten: Vec<_> = (0..scripts).filter(is_forgotten).collect();
        if forgotten.is_empty() {
            return Ok(replies);
        }
        let of_calls = |place: &usize| *place < self.scripts.len();
        let last = self.scripts.len()..scripts;
        let again: Vec<_> = forgotten.into_iter().filter(of_calls).chain(last).collect();
        let texts = self.asked().enumerate().filter(|(place, _)| again.contains(place));
        let texts = texts.map(|(_, asked)| asked.command(keys, true));
        let fresh = send(&mut connection, texts.chain(self.then.iter().cloned())).await?;
        for (place, reply) in again.into_iter().chain(scripts..).zip(fresh) {
            replies[place] = reply;
        }
        Ok(replies)
    }

    /// Returns the reply to a single script.
    pub(super) async fn run_one(
        script: Asked<'_>,
        connection: MultiplexedConnection,
        keys: &[String],
    ) -> RedisResult<Value> {
        let batch = Batch { scripts: vec![script], ..Batch::default() };
        batch.run(connection, keys).await?.pop().unwrap_or(Ok(Value::Nil))
    }
}

/// Sends the commands. An error from the server counts as a reply.
async fn send(
    connection: &mut MultiplexedConnection,
    commands: impl Iterator<Item = Cmd>,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut commands: Vec<_> = commands.collect();
    if commands.len() > 1 {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for command in commands {
            pipeline.add_command(command);
        }
        return pipeline.query_async(connection).await;
    }
    let Some(command) = commands.pop() else { return Ok(Vec::new()) };
    match command.query_async(connection).await {
        Err(error) if error.code().is_none() => Err(error),
        reply => Ok(vec![reply]),
    }
}

/// Returns a `WAIT` for replicas. The server replies with the number of replicas that have this
/// connection's writes, once they are enough or most of `patience` has passed.
pub(super) fn wait(acks: u32, patience: Duration) -> Cmd {
    let mut wait = redis::cmd("WAIT");
    wait.arg(acks).arg(most_of(patience));
    wait
}

/// Returns nine tenths of the time in milliseconds, at least 1. A 0 would wait without a limit.
pub(super) fn most_of(patience: Duration) -> u64 {
    u64::try_from(patience.mul_f64(0.9).as_millis()).unwrap_or(u64::MAX).max(1)
}
