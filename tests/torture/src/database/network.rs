//! A network of the run's own, by which a database's servers reach each other, and by which their
//! clients do not come.

use distlock_testkit::{
    Result,
    docker::{container, docker},
};

use super::own::{label, random};

/// What may be taken by others is tried so often with another one.
const TRIES: usize = 20;

#[derive(Debug)]
pub(super) struct Network {
    pub(super) name: String,
    /// Its first three bytes.
    bytes: String,
}

impl Network {
    pub(super) async fn start() -> Result<Self> {
        let mut random = random();
        let name = container(&format!("torture-peers-{:08x}", random.u32(..)));
        let mut failed = None;
        for _ in 0..TRIES {
            // Of the addresses that are kept for trials of networks.
            let bytes = format!("198.18.{}", random.u8(..));
            let subnet = format!("--subnet={bytes}.0/24");
            let create = ["network", "create", "--internal", &label(), &subnet, &name];
            match docker(&create).await {
                Ok(_) => return Ok(Self { name, bytes }),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| "no network".into()))
    }

    /// That of a server there.
    pub(super) fn address(&self, number: usize) -> String {
        format!("{}.{}", self.bytes, number + 11)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["network", "rm", &self.name]).output();
    }
}
