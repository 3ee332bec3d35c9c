//! Curator's `Revoker` requests a lock by writing to a node, not necessarily the holder's: the
//! waiter behind that node sees the write, and perhaps the node's deletion. Neither means that the
//! holder has released. That waiter is stopped during the request, so that it sees everything at
//! once.

use distlock_testkit::Result;
use tokio::time::sleep;

use crate::{
    fleet::{Kind, LONG, Stage, Worker},
    scenarios::{WATCHED, finish},
};

const REPEATS: usize = 50;
/// The number of repetitions that each need a new process.
const FEWER: usize = 20;

struct Cast {
    holder: Worker,
    behind: Worker,
    revoker: Worker,
}

impl Cast {
    async fn new(stage: &mut Stage<'_>) -> Result<Self> {
        Ok(Self {
            holder: stage.start(Kind::Distlock, LONG).await?,
            behind: stage.start(Kind::Distlock, LONG).await?,
            revoker: stage.start(Kind::Curator, LONG).await?,
        })
    }

    /// Sets up a holder, `middle`, and a stopped waiter behind it, and requests `middle` to
    /// release.
    async fn ask(&mut self, stage: &Stage<'_>, middle: &mut Worker, lock: &str) -> Result<()> {
        self.holder.tell_until("lock", "grant").await?;
        middle.tell(lock).await?;
        let queue = stage.store.queue_of(&stage.path, 2).await?;
        self.behind.tell("lock").await?;
        stage.store.queue_of(&stage.path, 3).await?;
        // Until its watch is set.
        sleep(WATCHED / 10).await;
        self.behind.stop().await?;
        self.revoker.tell_until(&format!("revoke {}", queue[1]), "done").await?;
        Ok(())
    }

    /// The last waiter sees everything that happened, and keeps waiting.
    async fn look(&self) -> Result<()> {
        self.behind.go_on().await?;
        sleep(WATCHED / 5).await;
        Ok(())
    }

    async fn end(self, stage: &Stage<'_>, middle: Option<Worker>) -> Result<()> {
        finish(stage, [self.holder, self.behind, self.revoker].into_iter().chain(middle).collect())
            .await
    }
}

/// distlock's waiter gets the request, and stays in the queue.
pub(crate) async fn stays(stage: &mut Stage<'_>) -> Result<String> {
    let mut cast = Cast::new(stage).await?;
    let mut middle = stage.start(Kind::Distlock, LONG).await?;
    for _ in 0..REPEATS {
        cast.ask(stage, &mut middle, "lock").await?;
        cast.look().await?;
        cast.holder.tell_until("unlock", "done").await?;
        middle.turn().await?;
        cast.behind.turn().await?;
    }
    cast.end(stage, Some(middle)).await?;
    Ok(format!("{REPEATS} times, each in its turn"))
}

/// Curator's waiter gets the request, and leaves.
pub(crate) async fn leaves(stage: &mut Stage<'_>) -> Result<String> {
    let mut cast = Cast::new(stage).await?;
    let mut middle = stage.start(Kind::Curator, LONG).await?;
    for _ in 0..REPEATS {
        cast.ask(stage, &mut middle, "lock-unless-asked").await?;
        middle.until("left").await?;
        stage.store.queue_of(&stage.path, 2).await?;
        cast.look().await?;
        cast.holder.tell_until("unlock", "done").await?;
        cast.behind.turn().await?;
    }
    cast.end(stage, Some(middle)).await?;
    Ok(format!("{REPEATS} times, the last waiter waited for the holder"))
}

/// distlock's waiter gets the request, and its client is closed.
pub(crate) async fn closes(stage: &mut Stage<'_>) -> Result<String> {
    let mut cast = Cast::new(stage).await?;
    for _ in 0..FEWER {
        let mut middle = stage.start(Kind::Distlock, LONG).await?;
        cast.ask(stage, &mut middle, "lock").await?;
        middle.tell_until("leave", "leaving").await?;
        middle.end().await?;
        stage.store.queue_of(&stage.path, 2).await?;
        cast.look().await?;
        cast.holder.tell_until("unlock", "done").await?;
        cast.behind.turn().await?;
    }
    cast.end(stage, None).await?;
    Ok(format!("{FEWER} times, the last waiter waited for the holder"))
}
