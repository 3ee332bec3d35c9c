//! Curator's `Revoker` asks for a lock by writing to a node, which need not be the holder's: the
//! one behind that node sees the write, and then perhaps that the node is gone. None of that says
//! that the holder has left. The one behind is stopped meanwhile, so that it sees all of it at
//! once.

use distlock_testkit::Result;
use tokio::time::sleep;

use crate::{
    fleet::{Kind, LONG, Stage, Worker},
    scenarios::{WATCHED, finish},
};

const REPEATS: usize = 50;
/// Where each repetition takes a new process.
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

    /// One holds, `middle` waits, one is behind it and stopped, and `middle` is asked to let go.
    async fn ask(&mut self, stage: &Stage<'_>, middle: &mut Worker, lock: &str) -> Result<()> {
        self.holder.tell_until("lock", "grant").await?;
        middle.tell(lock).await?;
        let queue = stage.store.queue_of(&stage.path, 2).await?;
        self.behind.tell("lock").await?;
        stage.store.queue_of(&stage.path, 3).await?;
        // Until its watch is there.
        sleep(WATCHED / 10).await;
        self.behind.stop().await?;
        self.revoker.tell_until(&format!("revoke {}", queue[1]), "done").await?;
        Ok(())
    }

    /// The one behind sees all that happened, and waits on.
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

/// Our waiter is asked, and stays where it is.
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

/// Curator's waiter is asked, and leaves.
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
    Ok(format!("{REPEATS} times, the one behind waited for the holder"))
}

/// Our waiter is asked, and its client is closed.
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
    Ok(format!("{FEWER} times, the one behind waited for the holder"))
}
