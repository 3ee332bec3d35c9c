//! A network of the run's own that connects a database's servers. Their clients do not use it.

use distlock_testkit::{
    Result,
    docker::{container, docker, label},
};

use super::own::random;

/// The number of attempts to find an unused name or subnet.
const ATTEMPTS: usize = 20;

#[derive(Debug)]
pub(super) struct Network {
    pub(super) name: String,
    /// The first three bytes of its addresses.
    bytes: String,
}

impl Network {
    pub(super) async fn start() -> Result<Self> {
        let mut random = random();
        let name = container(&format!("torture-peers-{:08x}", random.u32(..)));
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            // From the range for benchmarks of networks (RFC 2544).
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

    /// Returns a server's address in this network.
    pub(super) fn address(&self, number: usize) -> String {
        format!("{}.{}", self.bytes, number + 11)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["network", "rm", &self.name]).output();
    }
}
