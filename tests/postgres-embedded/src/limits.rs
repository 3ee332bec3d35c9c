//! What happens as time passes, without a request.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::{
    Server,
    client::{Client, Work},
    frames::error,
};

/// How often a server flushes its log.
const DELAY: Duration = Duration::from_millis(200);

impl Server {
    /// Flushes the log as often as a server does (`wal_writer_delay`).
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let (last, is_due) = self.flushed;
        if self.flushes && is_due && self.open.is_none() && last.elapsed() >= DELAY {
            self.database.ask(
                "BEGIN; SET LOCAL synchronous_commit = on; \
                 SELECT pg_logical_emit_message(true, '', ''); COMMIT",
            )?;
            self.flushed = (Instant::now(), false);
        }
        Ok(())
    }

    /// Refuses the batches that have waited for longer than their connection allows, and ends the
    /// connections that have been idle for too long.
    pub(crate) fn refuse_late(&mut self) -> io::Result<()> {
        let refusal = |number: &u64| {
            let client = self.clients.get(number)?;
            let Work::Run(batch) = client.waiting.front()? else { return None };
            let waited = batch.since.elapsed();
            let is_over = |limit: Option<Duration>| limit.is_some_and(|limit| waited > limit);
            if is_over(client.limits.lock) {
                return Some((*number, "55P03", "canceling statement due to lock timeout"));
            }
            let text = "canceling statement due to statement timeout";
            is_over(client.limits.statement).then_some((*number, "57014", text))
        };
        let late: Vec<_> = self.queue.iter().filter_map(refusal).collect();
        let idles =
            |client: &Client| client.limits.idle.is_some_and(|limit| client.idle.elapsed() > limit);
        let idle =
            self.clients.iter().filter(|(_, client)| client.waiting.is_empty() && idles(client));
        for number in idle.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number)?;
        }
        for (number, code, text) in late {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            if client.waiting.pop_front().is_some() {
                let at = self.queue.iter().position(|waiting| *waiting == number);
                at.and_then(|at| self.queue.remove(at));
                self.reply(number, &error(code, text, false));
            }
            self.settle(number)?;
        }
        Ok(())
    }
}
