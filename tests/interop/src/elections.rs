//! Elections that are shared with Go's `concurrency.Election` and `etcdctl elect`.

use distlock_testkit::Result;

use crate::{
    fleet::{Kind, LONG, Stage, Worker},
    scenarios::finish,
};

/// Each observer reports every leader, and what it proclaims.
pub(crate) async fn observers(stage: &mut Stage<'_>) -> Result<String> {
    let kinds = [Kind::Distlock, Kind::Go, Kind::Etcdctl];
    let mut observers = stage.start_all(kinds).await?;
    for observer in &mut observers {
        observer.tell_until("observe", "done").await?;
    }
    let mut seen = 0;
    for kind in kinds {
        let mut leader = stage.start(kind, LONG).await?;
        leader.tell_until("lock", "grant").await?;
        let mut values = vec![leader.name.clone()];
        // `etcdctl` does not proclaim.
        if kind != Kind::Etcdctl {
            values.push(format!("news-of-{}", leader.name));
        }
        for (number, value) in values.iter().enumerate() {
            if number > 0 {
                leader.tell_until(&format!("proclaim {value}"), "done").await?;
            }
            for observer in &mut observers {
                sees(observer, value).await?;
                seen += 1;
            }
        }
        leader.tell_until("unlock", "done").await?;
        finish(stage, vec![leader]).await?;
    }
    finish(stage, observers).await?;
    Ok(format!("{seen} values seen"))
}

async fn sees(observer: &mut Worker, value: &str) -> Result<()> {
    while observer.until("leader").await?.rest != value {}
    Ok(())
}
