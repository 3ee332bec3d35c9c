//! A server's disk that hangs: writes to its log wait, and everything else continues.

use std::time::Duration;

use crate::{
    Result,
    docker::{docker, done, label},
    retry::retried,
};

/// The time limit for attaching strace.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Delays writes to and flushes of the server's open files whose paths contain `$1`. Delaying only
/// flushes would not suffice, since some servers do not flush.
const STRACE: &str = r#"
part=$1
set --
for file in /proc/1/fd/*; do
    path=$(readlink "$file") || continue
    case $path in *"$part"*) set -- "$@" --trace-path="$path" ;; esac
done
[ $# -gt 0 ] || exit 1
calls=write,pwrite64,fsync,fdatasync
exec strace --attach=1 --follow-forks --output=/dev/null --trace="$calls" \
    --inject="$calls:delay_enter=3600000000" "$@"
"#;

/// The log of etcd.
pub const LOG_OF_ETCD: &str = "/wal/";

/// The log of ZooKeeper.
pub const LOG_OF_ZOOKEEPER: &str = "/version-2/log.";

/// Returns the name of the container with the strace that makes a server's disk hang.
fn strace(container: &str) -> String {
    format!("{container}-hung")
}

/// Makes the disk of a server's log hang from its next write on, until [`mend`]. The server's image
/// must have strace.
pub async fn hang(container: &str, log: &str) -> Result<()> {
    let format = "--format={{.Config.Image}}";
    let image = docker(&["inspect", format, container]).await?;
    let (name, pid) =
        (format!("--name={}", strace(container)), format!("--pid=container:{container}"));
    let run = ["run", "--detach", &label(), &name, &pid, "--user=0", "--cap-add=SYS_PTRACE"];
    let shell = ["--entrypoint=sh", &image, "-c", STRACE, "sh", log];
    docker(&[&run[..], &shell].concat()).await?;
    let attached = "! grep --quiet 'TracerPid:.0$' /proc/1/task/*/status";
    let attached = async || docker(&["exec", container, "sh", "-c", attached]).await;
    if let Err(error) = retried(ATTACH_TIMEOUT, attached).await {
        let logs = docker(&["logs", &strace(container)]).await;
        return Err(format!("strace is not attached: {error}, {logs:?}").into());
    }
    Ok(())
}

/// Ends the hang: waiting writes complete.
pub async fn mend(container: &str) -> Result<()> {
    docker(&["rm", "--force", &strace(container)]).await.map(drop)
}

/// A disk that hangs until this is dropped.
#[derive(Debug)]
pub struct HungDisk {
    strace: String,
}

impl HungDisk {
    /// Makes a disk hang as [`hang`] does.
    pub async fn of(container: &str, log: &str) -> Self {
        let disk = Self { strace: strace(container) };
        done(hang(container, log).await);
        disk
    }
}

impl Drop for HungDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["rm", "--force", &self.strace]).output();
    }
}
