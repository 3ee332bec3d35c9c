//! The memory of this process.

use crate::Result;

/// Resident now, and at most so far, in KiB.
pub(crate) fn memory() -> Result<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| -> Result<u64> {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
        Ok(line.split_whitespace().next().ok_or("no number")?.parse()?)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}
