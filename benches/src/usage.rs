//! The resources of processes.

use crate::Result;

/// Nanoseconds of a tick of processor time, as the kernel reports it.
const TICK: u64 = 10_000_000;

/// The memory of this process in KiB: resident now, and the maximum so far.
pub(crate) fn memory() -> Result<(u64, u64)> {
    memory_in("/proc/self")
}

/// The memory of another process.
pub(crate) fn memory_of(process: u32) -> Result<(u64, u64)> {
    memory_in(&format!("/proc/{process}"))
}

fn memory_in(folder: &str) -> Result<(u64, u64)> {
    let status = std::fs::read_to_string(format!("{folder}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
        Ok(line.split_whitespace().next().ok_or("no number")?.parse()?)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// Nanoseconds of processor time of another process.
pub(crate) fn cpu_of(process: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name before may contain spaces.
    let fields = stat.rsplit_once(')').ok_or("no name")?.1;
    let field = |place: usize| -> Result<u64> {
        Ok(fields.split_whitespace().nth(place).ok_or("no such field")?.parse()?)
    };
    let (user, system) = (field(11)?, field(12)?);
    Ok((user + system) * TICK)
}

/// Nanoseconds of processor time of another process's control group: a server with all of its
/// children.
pub(crate) fn cpu_of_group(process: u32) -> Result<u64> {
    let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup"))?;
    let group = |name: &str| groups.lines().find_map(|line| Some(line.split_once(name)?.1));
    if let Some(group) = group(":cpuacct:").or_else(|| group(":cpu,cpuacct:")) {
        let usage = format!("/sys/fs/cgroup/cpuacct{group}/cpuacct.usage");
        return Ok(std::fs::read_to_string(usage)?.trim().parse()?);
    }
    let group = group("0::").ok_or("no control group")?;
    let stat = std::fs::read_to_string(format!("/sys/fs/cgroup{group}/cpu.stat"))?;
    let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
    Ok(usage.ok_or("no time")?.trim().parse::<u64>()? * 1000)
}
