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

/// How long anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(90);

/// Workers by their numbers, and the events so far.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// Of all that were ever started.
    pub names: Vec<String>,
    log: watch::Sender<Log>,
}

impl Fleet {
    /// Starts one more.
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
            let _ = sender.send(event); // nobody listens to a worker that was dropped
            Ok(())
        });
        Ok(Worker { number, name: name.to_owned(), child, events, reader, log: self.log.clone() })
    }

    /// The events so far.
    pub fn log(&self) -> Log {
        self.log.borrow().clone()
    }

    /// Waits until a worker reports this after so many events of the log: its number, and how many
    /// events there are by then.
    pub async fn next(&self, word: &str, heard: usize) -> Result<(usize, usize)> {
        let find = |log: &Log| log[heard..].iter().position(|(_, event)| event.word == word);
        let mut log = self.log.subscribe();
        let said = timeout(PATIENCE, log.wait_for(|log| find(log).is_some())).await;
        let log = said.map_err(|_| format!("no {word} of anybody within {PATIENCE:?}"))??;
        let at = heard + find(&log).unwrap_or_default();
        Ok((log[at].0, at + 1))
    }
}

/// One of them. It is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    /// Among all of its fleet.
    pub number: usize,
    /// What it is called in reports.
    pub name: String,
    /// Its process.
    pub child: Child,
    events: UnboundedReceiver<Event>,
    reader: JoinHandle<Result<()>>,
    log: watch::Sender<Log>,
}

impl Worker {
    /// Gives it an order.
    pub async fn tell(&mut self, order: &str) -> Result<()> {
        Ok(self.child.order(order).await?)
    }

    /// Waits until it reports that.
    pub async fn until(&mut self, word: &str) -> Result<Event> {
        self.until_one(&[word]).await
    }

    /// Waits until it reports one of these.
    pub async fn until_one(&mut self, words: &[&str]) -> Result<Event> {
        let said = words.join(" or ");
        let wait = async {
            while let Some(event) = self.events.recv().await {
                match event.word.as_str() {
                    word if words.contains(&word) => return Ok(event),
                    "error" => return Err(format!("{}: {}", self.name, event.rest)),
                    _ => {}
                }
            }
            Err(format!("{} ended before it said {said}", self.name))
        };
        let late = |_| format!("{}: no {said} within {PATIENCE:?}", self.name);
        Ok(timeout(PATIENCE, wait).await.map_err(late)??)
    }

    /// Gives it an order, and waits until it reports that.
    pub async fn tell_until(&mut self, order: &str, word: &str) -> Result<Event> {
        self.tell(order).await?;
        self.until(word).await
    }

    /// How often it has reported that.
    pub fn count(&self, word: &str) -> usize {
        let log = self.log.borrow();
        let own = log.iter().filter(|(worker, _)| *worker == self.number);
        own.filter(|(_, event)| event.word == word).count()
    }

    /// Writes into the log what happened to it then.
    pub fn note(&self, word: &str, at: u64) {
        let event = Event { at, ..Event::new(word, "") };
        self.log.send_modify(|log| log.push((self.number, event)));
    }

    /// Kills it without a chance to say anything, which the log tells; when that was begun.
    pub async fn kill(mut self) -> Result<u64> {
        let at = now();
        self.child.kill().await?;
        (&mut self.reader).await??;
        self.note("killed", at);
        Ok(at)
    }

    /// Lets it finish, until all that it says is in the log.
    pub async fn end(mut self) -> Result<()> {
        self.child.hang_up();
        match timeout(PATIENCE, self.child.wait()).await {
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
        assert_eq!(one.tell_until("grant", "grant").await.expect("it says so").rest, "grant");
        let (number, heard) = fleet.next("lost", 0).await.expect("the other one says so");
        assert!(number == two.number && heard > 0);
        assert_eq!((one.count("grant"), two.count("grant")), (1, 0));
        let killed = two.kill().await.expect("it can be killed");
        one.tell("error").await.expect("it listens");
        assert_eq!(one.until("x").await.unwrap_err().to_string(), "shell: error");
        one.end().await.expect("it ends well");
        let log = fleet.log();
        let words = |of| {
            let of = log.iter().filter(move |(number, _)| *number == of);
            of.map(|(_, event)| event.word.as_str()).collect::<Vec<_>>()
        };
        assert_eq!((words(0), words(1)), (vec!["grant", "error", "end"], vec!["lost", "killed"]));
        assert!(log.iter().any(|(_, event)| event.at == killed));
    }
}
