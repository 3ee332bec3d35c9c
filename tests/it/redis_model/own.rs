//! A server of a test's own, in the test's process.

use std::ops::Deref;

use distlock_redis_model::{Front, Model};

use crate::common::redis::{Reached, USUAL, settle};

pub(crate) struct Server {
    front: Front,
    reached: Reached,
    options: Vec<(String, String)>,
}

/// The settings that a command's arguments name.
fn pairs(options: &[&str]) -> Vec<(String, String)> {
    let pairs = options.chunks_exact(2);
    pairs.map(|pair| (pair[0].trim_start_matches('-').to_owned(), pair[1].to_owned())).collect()
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with these settings, which has had clients before.
    pub(crate) async fn with(options: &[&str]) -> Self {
        let server = Self::just_begun(options).await;
        settle(&server.operator().await, USUAL).await;
        server
    }

    /// Starts a server that has had no client.
    pub(crate) async fn just_begun(options: &[&str]) -> Self {
        let front = Front::start().expect("a port");
        let reached = Reached { address: front.address };
        let server = Self { front, reached, options: pairs(options) };
        server.end(|_| {}).await;
        server
    }

    /// Ends the process, changes what it leaves, and starts another one.
    async fn end(&self, leave: impl FnOnce(&mut Model) + Send + 'static) {
        let (front, options) = (self.front.clone(), self.options.clone());
        let ending = tokio::task::spawn_blocking(move || {
            front.end(move |model| {
                leave(model);
                for (name, value) in options {
                    model.set(&name, &value);
                }
            });
        });
        ending.await.expect("no panic");
    }

    pub(crate) async fn restart(&self) {
        self.end(|model| {
            model.flush();
            model.crash();
        })
        .await;
    }

    /// Loses the disk, too.
    pub(crate) async fn wipe(&mut self) {
        self.end(Model::wipe).await;
    }

    /// The settings of its next start.
    pub(crate) fn start_with(&mut self, options: &[&str]) {
        self.options = pairs(options);
    }

    pub(crate) async fn copy_disk(&self) {
        self.change(Model::copy_disk).await;
    }

    /// Ends, and starts with the disk that was copied.
    pub(crate) async fn crash(&mut self) {
        self.end(Model::crash_with_copy).await;
    }

    /// Ends by SIGKILL: the system still writes what it has received.
    pub(crate) async fn die(&mut self) {
        self.restart().await;
    }

    /// Copies the data as a replica does.
    pub(crate) async fn back_up(&self) {
        self.change(Model::back_up).await;
    }

    /// Changes the running server.
    pub(super) async fn change(&self, change: impl FnOnce(&mut Model) + Send + 'static) {
        let front = self.front.clone();
        let changing = tokio::task::spawn_blocking(move || front.change(change));
        changing.await.expect("no panic");
    }
}

impl Deref for Server {
    type Target = Reached;

    fn deref(&self) -> &Reached {
        &self.reached
    }
}
