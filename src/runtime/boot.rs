//! The seam to what the machine says of its boot: the clock that [`clock`](super::clock) reads is
//! the same one for all processes of a host, from one boot to the next.

use std::{fs, io};

/// What tells this boot from all others.
pub(crate) fn id() -> io::Result<String> {
    let said = |path: &str| {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
        fs::read_to_string(path).map_err(named)
    };
    let id = said("/proc/sys/kernel/random/boot_id")?;
    // An old kernel has no such namespaces, and no such file.
    let offsets = said("/proc/self/timens_offsets").unwrap_or_default();
    if is_shifted(&offsets) {
        return Err(io::Error::other(
            "this process is in a time namespace, whose clock is not that of its host",
        ));
    }
    Ok(id.trim().to_owned())
}

/// Whether `CLOCK_BOOTTIME` shows another time than outside of a time namespace
/// (<https://man7.org/linux/man-pages/man7/time_namespaces.7.html>).
fn is_shifted(offsets: &str) -> bool {
    let shifted = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("boottime") && words.any(|offset| offset != "0")
    };
    offsets.lines().any(shifted)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_an_id_and_one_clock() {
        assert_eq!(id().unwrap(), id().unwrap());
        assert!(!is_shifted(""));
        assert!(!is_shifted("monotonic           5         0\nboottime            0         0\n"));
        assert!(is_shifted("monotonic           0         0\nboottime       -86400         0\n"));
    }
}
