//! Members of a cluster that stop: for a while, or until they are started again.

use std::time::Duration;

use tokio::process::Command;

use super::{case::poll, servers::container};

async fn docker(arguments: &[&str]) {
    let output = Command::new("docker").args(arguments).output().await.expect("docker is there");
    assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Where nothing can be awaited.
fn docker_now(arguments: &[&str]) {
    let _ = std::process::Command::new("docker").args(arguments).output();
}

/// A server that stands still; its connections stay. It wakes at the end of the test, however that ends.
pub(crate) struct Paused {
    container: String,
    awake: bool,
}

impl Paused {
    pub(crate) async fn stop(server: &str) -> Self {
        let paused = Self { container: container(server), awake: false };
        docker(&["pause", &paused.container]).await;
        paused
    }

    pub(crate) async fn wake(mut self) {
        docker(&["unpause", &self.container]).await;
        self.awake = true;
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if !self.awake {
            docker_now(&["unpause", &self.container]);
        }
    }
}

/// A server that was killed; its connections are reset. It starts again at the end of the test, however that ends.
pub(crate) struct Killed {
    container: String,
    started: bool,
}

impl Killed {
    pub(crate) async fn kill(server: &str) -> Self {
        let killed = Self { container: container(server), started: false };
        docker(&["kill", &killed.container]).await;
        killed
    }

    pub(crate) async fn start(mut self) {
        // Docker may still be putting the old process away.
        let started = poll(Duration::from_secs(10), async || {
            let output = Command::new("docker").args(["start", &self.container]).output().await;
            output.is_ok_and(|output| output.status.success())
        });
        assert!(started.await, "{} does not start", self.container);
        self.started = true;
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if !self.started {
            docker_now(&["start", &self.container]);
        }
    }
}
