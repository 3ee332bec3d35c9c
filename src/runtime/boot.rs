//! The seam to the machine's boot ID. The clock that [`clock`](super::clock) reads is the same for
//! all processes of a host, from one boot to the next.

use std::{fs, io, path::Path};

const ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns the ID of the current boot.
///
/// systemd-nspawn, LXC and Incus mount a file with a random ID over the kernel's file in every
/// container. Two containers of one host would then take each other's sessions for those of an
/// earlier boot.
pub(crate) fn id() -> io::Result<String> {
    let named = |path, error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
    if is_replaced(Path::new(ID)).map_err(|error| named(ID, error))? {
        return Err(io::Error::other(format!(
            "another file is mounted over {ID} (systemd-nspawn, LXC, LXD and Incus do this). This \
             container therefore has its own boot ID, and a lock in a file cannot exclude \
             processes outside the container. Use a store that runs on a server, or unmount that \
             file in the container"
        )));
    }
    let said = |path: &'static str| fs::read_to_string(path).map_err(|error| named(path, error));
    let id = said(ID)?;
    // An old kernel has no time namespaces and no such file.
    let offsets = said("/proc/self/timens_offsets").unwrap_or_default();
    if is_shifted(&offsets) {
        return Err(io::Error::other(
            "this process is in a time namespace, where the clock differs from the host's: a lock \
             in a file cannot exclude processes outside the namespace. Use a store that runs on a \
             server",
        ));
    }
    Ok(id.trim().to_owned())
}

/// Returns `true` if a time namespace shifts `CLOCK_BOOTTIME`.
///
/// See <https://man7.org/linux/man-pages/man7/time_namespaces.7.html>.
fn is_shifted(offsets: &str) -> bool {
    let shifted = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("boottime") && words.any(|offset| offset != "0")
    };
    offsets.lines().any(shifted)
}

/// Returns `true` if the file at this path of `/proc` is not the kernel's own.
#[cfg(target_os = "linux")]
fn is_replaced(path: &Path) -> io::Result<bool> {
    // `PROC_SUPER_MAGIC`. The check also rules out a mount over one of the parent directories.
    let is_of_kernel = rustix::fs::statfs(path)?.f_type as u32 == 0x9fa0;
    Ok(!is_of_kernel || is_mount_point(path))
}

/// Returns `true` if the file is a mount point. Kernels before 5.8 do not report it.
#[cfg(target_os = "linux")]
pub(crate) fn is_mount_point(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_replaced(_: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_mount_point(_: &Path) -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_an_id_and_one_clock() {
        assert_eq!(id().unwrap(), id().unwrap());
        for (path, replaced) in [(ID, Some(false)), ("/dev/null", Some(true)), ("/no", None)] {
            assert_eq!(is_replaced(Path::new(path)).ok(), replaced, "{path}");
        }
        assert!(!is_shifted(""));
        assert!(!is_shifted("monotonic           5         0\nboottime            0         0\n"));
        assert!(is_shifted("monotonic           0         0\nboottime       -86400         0\n"));
    }
}
