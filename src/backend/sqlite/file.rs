//! The file: which one it is, and whether it can be shared.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::backend::error::{Result, StoreError};

const OPENING: &str = "opening the file";

/// File systems that another host may write to, by what `statfs` calls them: there, neither
/// SQLite's locks nor this host's clock hold for all.
#[cfg(target_os = "linux")]
const SHARED: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x786f_4256, "VirtualBox's shared folders"),
    (0x4750_4653, "GPFS"),
];

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// What is found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    File(Identity),
}

/// Looks without opening it: to close a file of SQLite's gives up SQLite's own locks on it
/// (<https://sqlite.org/howtocorrupt.html>, 2.2).
#[cfg(unix)]
pub(super) fn find(path: &Path) -> Found {
    fs::metadata(path).map_or(Found::Nothing, |found| {
        Found::File(Identity { device: found.dev(), inode: found.ino() })
    })
}

/// There is no boot's id to go by, and no file is opened.
#[cfg(not(unix))]
pub(super) fn find(_: &Path) -> Found {
    Found::Nothing
}

/// The path to be opened; fails if no file there can be shared among the processes of a host.
pub(super) fn check(path: &Path) -> Result<PathBuf> {
    let refused = |reason: String| {
        let source = format!("{}: {reason}", path.display()).into();
        Err(StoreError::Fatal { operation: OPENING, source })
    };
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(error) => return refused(error.to_string()),
    };
    let Some(folder) = path.parent() else { return refused("it is no file".into()) };
    match fs::metadata(folder) {
        // It may come, or come back.
        Err(error) => {
            let told = format!("{}: its directory: {error}", path.display()).into();
            return Err(match error.kind() {
                ErrorKind::PermissionDenied => StoreError::Denied(told),
                _ => StoreError::Unavailable(told),
            });
        }
        Ok(found) if !found.is_dir() => return refused("what it is in is no directory".into()),
        Ok(_) => {}
    }
    match fs::metadata(&path) {
        Ok(found) if !found.is_file() => return refused("it is no file".into()),
        // What SQLite keeps beside a file is named after it: two names would make two of them.
        #[cfg(unix)]
        Ok(found) if found.nlink() > 1 => {
            return refused("it has other names (hard links), and may have one alone".into());
        }
        // As if it had another name: what is kept beside it stays outside.
        Ok(_) if is_mounted_alone(&path) => {
            return refused(
                "it is mounted by itself (as into a container): mount its directory instead".into(),
            );
        }
        _ => {}
    }
    match shared(folder) {
        Some(name) => refused(format!(
            "it is on a file system of the kind {name}, which other hosts may write to: locks in \
             a file are for the processes of one host"
        )),
        None => Ok(path),
    }
}

/// The kind of a file system that other hosts may write to.
#[cfg(target_os = "linux")]
fn shared(folder: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    // The kinds are of 32 bits, whatever the platform keeps them in.
    SHARED.iter().find(|(known, _)| *known == kind as u32).map(|(_, name)| *name)
}

/// Whether the file is a mount of its own. A kernel before 5.8 does not tell.
#[cfg(target_os = "linux")]
fn is_mounted_alone(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn shared(_: &Path) -> Option<&'static str> {
    None
}

#[cfg(not(target_os = "linux"))]
fn is_mounted_alone(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_shared_is_refused() {
        let folder = std::env::temp_dir().join(format!("distlock-file-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        let told = |path: &Path| check(path).unwrap_err().reason();
        assert!(told(&folder.join("none/a")).contains("its directory"));
        assert!(told(&folder).contains("no file"));
        assert!(told(Path::new("/proc/self/none/a")).contains("its directory"));
        let (one, other) = (folder.join("one"), folder.join("other"));
        fs::write(&one, "").unwrap();
        check(&one).unwrap();
        let found = find(&one);
        assert_ne!((found, find(&other)), (Found::Nothing, found));
        fs::hard_link(&one, &other).unwrap();
        assert!(told(&one).contains("other names"));
        fs::remove_dir_all(folder).unwrap();
    }
}
