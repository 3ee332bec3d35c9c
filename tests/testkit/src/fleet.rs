//! A fleet of worker processes, and the events that they report.

use std::time::Duration;

use tokio::{
    process::Command,
    sync::{
        mpsc::{UnboundedReceiver, unbounded_channel},
        watch,
    },
    task::JoinHandle,
    time::timeout,
};

use crate::{Result, child::Child, clock::now, event::Event, history::Log};

/// The time limit of anything that is not measured.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// Workers by their numbers, and the events so far.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The names of all workers ever started.
    pub names: Vec<String>,
    log: watch::Sender<Log>,
}

impl Fleet {
    /// Starts another worker.
    pub fn start(&mut self, name: &str, command: &mut Command) -> Result<Worker> {
        let (number, log) = (self.names.len(), self.log.clone());
        self.names.push(name.to_owned());
        let mut child = Child::start(command)?;
        let (sender, events) = unbounded_channel();
        let reader = child.listen(move |text| {
            let Some(event) = Event::parse(text) else {
                eprintln!("{text}");
                return Ok(());
            };
            log.send_modify(|log| log.push((number, event.clone())));
            let _ = sender.send(event); // a dropped worker has no receiver
            Ok(())
        });
        Ok(Worker { number, name: name.to_owned(), child, events, reader, log: self.log.clone() })
    }

    /// Returns the events so far.
    pub fn log(&self) -> Log {
        self.log.borrow().clone()
    }

    /// Waits for an event `word` after the first `heard` events of the log. Returns the worker's
    /// number, and the number of events up to that one.
    pub async fn next(&self, word: &str, heard: usize) -> Result<(usize, usize)> {
        let find = |log: &Log| log[heard..].iter().position(|(_, event)| event.word == word);
        let mut log = self.log.subscribe();
        let awaited = timeout(TIME_LIMIT, log.wait_for(|log| find(log).is_some())).await;
        let log =
            awaited.map_err(|_| format!("no {word} of any worker within {TIME_LIMIT:?}"))??;
        let at = heard + find(&log).unwrap_or_default();
        Ok((log[at].0, at + 1))
    }
}

/// A worker. It is killed on drop.
#[derive(Debug)]
pub struct Worker {
    /// Its index among all workers of the fleet.
    pub number: usize,
    /// Its name in reports.
    pub name: String,
    /// Its process.
    pub child: Child,
    events: UnboundedReceiver<Event>,
    reader: JoinHandle<Result<()>>,
    log: watch::Sender<Log>,
}

impl Worker {
    /// Sends an order.
    pub async fn tell(&mut self, order: &str) -> Result<()> {
        Ok(self.child.order(order).await?)
    }

    /// Waits until the worker reports this event.
    pub async fn until(&mut self, word: &str) -> Result<Event> {
        self.until_one(&[word]).await
    }

    /// Waits until the worker reports one of these events.
    pub async fn until_one(&mut self, words: &[&str]) -> Result<Event> {
        let awaited = words.join(" or ");
        let wait = async {
            while let Some(event) = self.events.recv().await {
                match event.word.as_str() {
                    word if words.contains(&word) => return Ok(event),
                    "error" => return Err(format!("{}: {}", self.name, event.rest)),
                    _ => {}
                }
            }
            Err(format!("{} ended before it reported {awaited}", self.name))
        };
        let late = |_| format!("{}: no {awaited} within {TIME_LIMIT:?}", self.name);
        Ok(timeout(TIME_LIMIT, wait).await.map_err(late)??)
    }

    /// Sends an order, and waits until the worker reports this event.
    pub async fn tell_until(&mut self, order: &str, word: &str) -> Result<Event> {
        self.tell(order).await?;
        self.until(word).await
    }

    /// Returns how often the worker has reported this event.
    pub fn count(&self, word: &str) -> usize {
        let log = self.log.borrow();
        let own = log.iter().filter(|(worker, _)| *worker == self.number);
        own.filter(|(_, event)| event.word == word).count()
    }

    /// Adds an event about the worker to the log.
    pub fn note(&self, word: &str, at: u64) {
        let event = Event { at, ..Event::new(word, "") };
        self.log.send_modify(|log| log.push((self.number, event)));
    }

    /// Kills the worker without a chance to report anything, and logs that. Returns when the kill
    /// started.
    pub async fn kill(mut self) -> Result<u64> {
        let at = now();
        self.child.kill().await?;
        (&mut self.reader).await??;
        self.note("killed", at);
        Ok(at)
    }

    /// Lets the worker finish, and waits until all its events are in the log.
    pub async fn end(mut self) -> Result<()> {
        self.child.hang_up();
        match timeout(TIME_LIMIT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => self.reader.await?,
            Ok(status) => Err(format!("{} failed at its end: {status:?}", self.name).into()),
            Err(_) => Err(format!("{} does not end", self.name).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(fleet: &mut Fleet, script: &str) -> Worker {
        let mut command = Command::new("sh");
        fleet.start("shell", command.args(["-c", script])).expect("there is a shell")
    }

    #[tokio::test]
    async fn all_events_of_workers_are_in_the_log() {
        let mut fleet = Fleet::default();
        let echo = "while read -r order; do echo \"$order 1 $order\"; done; echo end 2";
        let (mut one, two) =
            (start(&mut fleet, echo), start(&mut fleet, "echo lost 3; exec sleep 99"));
        assert_eq!(one.tell_until("grant", "grant").await.expect("an event").rest, "grant");
        let (number, heard) = fleet.next("lost", 0).await.expect("an event");
        assert!(number == two.number && heard > 0);
        assert_eq!((one.count("grant"), two.count("grant")), (1, 0));
        let killed = two.kill().await.expect("killed");
        one.tell("error").await.expect("the worker reads");
        assert_eq!(one.until("x").await.unwrap_err().to_string(), "shell: error");
        one.end().await.expect("ended");
        let log = fleet.log();
        let words = |of| {
            let of = log.iter().filter(move |(number, _)| *number == of);
            of.map(|(_, event)| event.word.as_str()).collect::<Vec<_>>()
        };
        assert_eq!((words(0), words(1)), (vec!["grant", "error", "end"], vec!["lost", "killed"]));
        assert!(log.iter().any(|(_, event)| event.at == killed));
    }
}
